"""Bytes <-> messages: all APIs and versions, framing, record batches, error codes; no import of ours."""
