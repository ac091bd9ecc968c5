"""Authentication of connections: the shell around the state machines of `core/security`."""
