"""A topology as data, and the queries that it is cut into. No Spark in here."""
