"""Tables of relational databases as source and sink: PostgreSQL, MariaDB and MySQL, SQLite."""
