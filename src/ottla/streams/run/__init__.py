"""Applications on a cluster: found, started, watched, kept small, reset."""
