"""Counting and reconciling without I/O: batches and reports in, deltas and rows out."""
