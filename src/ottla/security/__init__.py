"""Checks that a server makes of its clients: keys and certificates, hashed passwords, bearer tokens."""
