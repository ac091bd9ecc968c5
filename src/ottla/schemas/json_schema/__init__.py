"""JSON Schema: parsing, normal form and what a change means to readers."""
