"""The partitions of this broker: led, followed, appended to, kept in bounds, cleaned."""
