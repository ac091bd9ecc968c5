"""Records of requests: from JSON to bytes, into the cluster."""
