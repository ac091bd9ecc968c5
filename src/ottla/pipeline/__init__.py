"""The data pipeline on Spark through PySpark."""
