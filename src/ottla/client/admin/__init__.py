"""Administration of any Kafka cluster, over `cluster_requests`: topics, configs, offsets and sizes."""
