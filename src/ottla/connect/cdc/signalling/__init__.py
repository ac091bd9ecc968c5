"""Signals from outside, and incremental snapshots carried out: what the databases' connectors share."""
