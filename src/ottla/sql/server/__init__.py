"""`ottla sql server`: ksqlDB's REST API."""
