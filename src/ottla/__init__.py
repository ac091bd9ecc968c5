"""ottla: Apache Kafka's platform in Python."""

__version__ = "0.1.0"
