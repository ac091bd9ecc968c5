"""Request handlers, one module an API family."""
