"""Statements bound to the catalogue: names resolved, types worked out, rules checked, plans made."""
