"""ASGI services that speak only Kafka's protocol."""
