"""The audit log's decisions: the events that wait to be written, and those of administrative requests."""
