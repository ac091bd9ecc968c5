"""The state of a Connect cluster: topics of configurations and statuses, or the memory of a worker alone."""
