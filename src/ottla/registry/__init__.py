"""Schema Registry: Confluent's REST API over a compacted topic, `_schemas`."""
