"""API v3, one module a family of paths."""
