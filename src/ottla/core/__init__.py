"""Decisions without I/O: pure state machines driven by events and a clock, returning effects."""
