"""The registry's answers and decisions, made from its image without I/O."""
