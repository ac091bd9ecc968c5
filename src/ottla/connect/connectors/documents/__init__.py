"""Document stores as sink and source: PostgreSQL, SQLite, and others where their packages are installed."""
