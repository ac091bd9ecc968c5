"""Connectors that run as Python tasks."""
