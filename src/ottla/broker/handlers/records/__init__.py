"""Requests about records: written, read, found, deleted."""
