"""Clients' metrics on this node (KIP-714): pushes taken, unfolded, kept for scrapes, sent to a collector."""
