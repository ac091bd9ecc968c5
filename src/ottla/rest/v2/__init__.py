"""API v2, one module a family of paths."""
