"""The look at a cluster: one bounded round of requests, side by side, each with its timeout."""
