"""MongoDB's own sink connector, by its names."""
