"""Kafka's requests and responses, one module each, as declarative field tables (generated, see tools/)."""
