"""The file sink: Parquet, JSON, CSV and ORC files in a directory, committed by manifests."""
