"""ASGI services that speak only Kafka's protocol: each runs on any cluster, ottla's or another."""
