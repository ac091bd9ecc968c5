"""Topologies without a broker: the test kit and previews."""
