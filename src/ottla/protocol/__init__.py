"""Bytes <-> messages: every API and version, framing, record batches, error codes. Imports nothing of ours."""
