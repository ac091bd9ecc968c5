"""Converters: bytes of topics to Connect's values and back."""
