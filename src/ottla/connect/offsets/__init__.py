"""The offsets of connectors, as the REST API lists, alters and resets them (KIP-875)."""
