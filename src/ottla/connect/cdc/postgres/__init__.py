"""PostgreSQL's changes, by logical replication with pgoutput."""
