"""Topologies as text, JSON and pictures."""
