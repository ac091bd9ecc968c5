"""Sockets to requests and answers to sockets: listeners, connections, bounds, dispatch."""
