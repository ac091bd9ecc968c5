"""Decisions of balance without I/O: the model of a cluster, the goals, the planner, what a size would do."""
