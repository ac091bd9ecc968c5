"""Kafka's wire format: messages of all APIs and versions, frames, record batches and error codes."""
