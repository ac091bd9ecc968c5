"""Connectors that run as streaming queries on Spark: lakes, and every data source of Spark."""
