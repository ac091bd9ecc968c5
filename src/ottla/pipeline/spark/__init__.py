"""Start Spark: Java, jars, the session, the process that its Python workers come from."""
