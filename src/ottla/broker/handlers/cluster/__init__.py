"""Requests about the cluster: metadata, topics, settings, nodes, the quorum."""
