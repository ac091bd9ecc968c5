"""Change data capture: the changes of a database's tables as records, in Debezium's form."""
