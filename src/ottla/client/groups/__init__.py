"""Groups of all four kinds, classic, consumer, share and streams: read, reset, emptied and deleted.

Only messages of ottla.protocol are sent, so bytes that a member may choose (its assignment, say) do no harm.
"""
