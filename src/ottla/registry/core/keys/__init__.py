"""Keys that encrypt fields of records, and the keys that encrypt those keys: image, queries and decisions."""
