"""Records read from and written to a cluster by our own protocol: batches in bulk, without a library
between.
"""
