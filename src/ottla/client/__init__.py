"""How a client reaches a Kafka cluster or a Schema Registry: one description of each for all libraries."""
