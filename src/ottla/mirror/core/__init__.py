"""Decisions of the mirror without I/O: names, patterns, batches."""
