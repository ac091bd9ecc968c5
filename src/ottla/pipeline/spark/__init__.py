"""Starts Spark: the Java runtime, the jars, the session, and the process that forks Python workers."""
