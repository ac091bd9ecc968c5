"""What the registry answers and decides, from its image, without I/O."""
