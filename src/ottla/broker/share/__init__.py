"""Share partitions that this broker leads, and the sessions of their members (KIP-932)."""
