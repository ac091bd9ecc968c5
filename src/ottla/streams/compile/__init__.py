"""Planned queries as frames: columns, Spark's own operators, the place of Python operators."""
