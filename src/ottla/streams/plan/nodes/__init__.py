"""The kinds of nodes of a topology, each with its facts and its description."""
