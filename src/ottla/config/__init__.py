"""Settings of programs and resources: their tables, the places that give them, the values that hold."""
