"""Directories of files as source and sink: lines, CSV, JSON and Parquet."""
