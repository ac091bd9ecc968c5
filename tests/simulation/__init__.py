"""Whole clusters in one thread, from a seed: real core, simulated clock, network and disk."""
