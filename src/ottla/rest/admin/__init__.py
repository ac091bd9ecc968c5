"""What the proxy reads and changes of a cluster."""
