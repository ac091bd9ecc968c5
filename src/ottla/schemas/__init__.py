"""Schemas without a registry: parses, normalizes and compares Avro, JSON Schema and Protobuf."""
