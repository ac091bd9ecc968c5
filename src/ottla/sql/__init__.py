"""SQL over streams: ksqlDB's statements, bound to types, planned, and run by Streams. See docs/sql.md."""
