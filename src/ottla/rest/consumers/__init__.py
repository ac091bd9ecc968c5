"""Consumer instances of the REST API."""
