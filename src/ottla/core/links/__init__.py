"""Links: topics that follow another cluster's, with the same offsets. Decisions alone, no I/O."""
