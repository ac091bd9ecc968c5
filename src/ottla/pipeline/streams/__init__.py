"""Streams: a typed DSL over topics, compiled to Spark; `dsl.py` is where to begin."""
