"""The rows of tables as of one moment of the database: ranges of keys, read at once."""
