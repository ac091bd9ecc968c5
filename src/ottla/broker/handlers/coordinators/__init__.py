"""Requests of groups, transactions and share groups to their coordinators."""
