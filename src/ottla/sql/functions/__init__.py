"""ksqlDB's functions by name: signatures, what they do in Python, and in Spark where it is the same."""
