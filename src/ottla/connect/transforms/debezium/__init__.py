"""Debezium's transforms of change events: the unwrapping of envelopes, and the outbox's router."""
