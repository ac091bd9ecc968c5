"""A query's life: source, modes, admission, progress, metrics, end."""
