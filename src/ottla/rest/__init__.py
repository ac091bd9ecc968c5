"""REST Proxy: a Kafka cluster over HTTP, by Confluent's APIs v2 and v3."""
