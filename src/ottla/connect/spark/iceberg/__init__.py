"""The Iceberg sink: append and upsert into tables of any catalog, with the ledger in their snapshots."""
