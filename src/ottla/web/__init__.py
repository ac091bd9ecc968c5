"""The parts that all services share: bodies and answers over HTTP, errors, and the server."""
