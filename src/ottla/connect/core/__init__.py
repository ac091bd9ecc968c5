"""Decisions of a Connect worker, without I/O: the image of its topics, assignments, tasks, and what runs."""
