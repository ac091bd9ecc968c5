"""What statements know of: streams, tables and named types."""
