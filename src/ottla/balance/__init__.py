"""Balance of a cluster: which replicas and leaders go where so that goals hold, and the moves themselves."""
