"""Databases, written and read by all tasks of Spark at once."""
