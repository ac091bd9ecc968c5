"""Fields of records encrypted by the rules of a Schema Registry: algorithms and key services; no I/O."""
