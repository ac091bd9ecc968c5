"""ottla beside Apache Kafka: the same clients, the same machine, in turns. See `python -m bench --help`."""
