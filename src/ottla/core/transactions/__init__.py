"""Producer ids and transaction states."""
