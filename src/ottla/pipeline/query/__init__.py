"""A query's life: its source, mode, admission, progress, metrics and end."""
