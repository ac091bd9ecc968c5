"""Carries a plan out: moves in batches, elections, throttles, and the journal that outlives a kill."""
