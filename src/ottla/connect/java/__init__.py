"""Kafka Connect's own plugins, in jars, run by a Java worker that ottla starts and supervises."""
