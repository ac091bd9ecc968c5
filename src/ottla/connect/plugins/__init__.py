"""Plugins: the classes that one writes, and how connectors, converters and transforms are found."""
