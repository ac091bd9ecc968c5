"""Rows for whoever asks: push and pull queries, inserts, and their routes."""
