"""JSON Schema: parsing, normal form and compatibility."""
