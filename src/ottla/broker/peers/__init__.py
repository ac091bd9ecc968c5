"""Requests of this node to others."""
