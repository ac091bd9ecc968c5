"""The common parts of HTTP services: bodies and answers, errors, bounds, the server and its process."""
