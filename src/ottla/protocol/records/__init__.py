"""Records that Kafka keeps in its own logs (metadata, offsets, transactions), as declarative field tables (generated)."""
