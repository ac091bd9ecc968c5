"""Administration: the parts of a cluster that the proxy reads and changes."""
