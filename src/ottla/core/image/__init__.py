"""The cluster's metadata in memory: records add up to it, and it is written as records again."""
