"""Running queries: one process with Spark, and its supervision."""
