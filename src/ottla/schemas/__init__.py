"""Schemas without a registry: Avro, JSON Schema and Protobuf parsed, normalized, compared."""
