"""Simulations of whole clusters in one thread, from a seed: the real core over a simulated world."""
