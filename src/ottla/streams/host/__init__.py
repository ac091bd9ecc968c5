"""Operators in Python on Spark: state in pages, values, event time."""
