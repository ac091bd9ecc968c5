"""Groups, transactions and share states: shards over their logs, and ways to them."""
