"""Materialized tables: followed from their topics, stored, asked over HTTP."""
