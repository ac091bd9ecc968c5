"""The text of statements: tokens, positions, syntax trees. Knows no catalogue and no types."""
