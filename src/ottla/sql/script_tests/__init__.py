"""Tests of scripts: statements, rows that are inserted, and what must have been written then. No broker."""
