"""What readers of topics raise for a value that is none of its column's type."""

from __future__ import annotations


class BadValue(ValueError):
    """A value that is none of its column's type."""
