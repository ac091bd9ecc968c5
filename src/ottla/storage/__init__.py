"""The log on disk in Kafka's format: segments, indexes, producer snapshots, recovery, retention."""
