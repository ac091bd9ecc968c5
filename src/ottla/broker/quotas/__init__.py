"""Quotas of this node's clients: limits from the metadata, counts, and connections that are muted."""
