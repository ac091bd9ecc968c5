"""Bytes <-> messages: every API key and version, framing, record batches, error codes. Imports nothing of ours."""
