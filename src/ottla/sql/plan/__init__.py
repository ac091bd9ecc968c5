"""What a statement does, as data: bound expressions and queries, in JSON and out of it."""
