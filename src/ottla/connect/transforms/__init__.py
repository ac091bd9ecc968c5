"""Single message transforms and predicates, with the configuration keys of Kafka Connect's."""
