"""The cluster's metadata in memory: built from the records of the metadata log, and written as records."""
