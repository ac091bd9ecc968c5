"""Quotas of clients: rates over time windows, token buckets, and which limit holds for which client."""
