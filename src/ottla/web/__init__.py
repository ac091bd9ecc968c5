"""The parts that all services share: settings, bodies and answers over HTTP, errors, and the server."""
