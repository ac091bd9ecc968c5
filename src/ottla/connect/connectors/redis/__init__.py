"""Records in Redis: strings, hashes and streams."""
