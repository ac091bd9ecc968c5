"""A shop writes orders (confluent-kafka), billing writes an invoice for each, exactly once (aiokafka)."""
