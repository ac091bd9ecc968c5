"""Bounds the number of values in JSON: one of two characters takes some seventy bytes once it is parsed."""

from __future__ import annotations

from typing import Final

MAX_VALUES: Final = 4_000_000
"""The most values of one text; they take some 300 MB."""


def has_too_many_values(text: bytes | memoryview) -> bool:
    """Whether JSON may have more than MAX_VALUES values, told by its commas and brackets."""
    if len(text) <= MAX_VALUES:
        return False
    data = bytes(text)
    return data.count(b",") + data.count(b"{") + data.count(b"[") > MAX_VALUES
