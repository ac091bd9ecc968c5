"""The shell: sockets, request handlers, background work."""
