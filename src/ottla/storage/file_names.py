"""The names of a partition's files: an offset in twenty digits, then what the file holds."""

from __future__ import annotations

OFFSET_DIGITS = 20


def offset_file_name(offset: int, suffix: str = "") -> str:
    """The name of the file of a segment's base offset, or of a snapshot's: 00000000000000000042.log."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str) -> int | None:
    """The offset in a file's name, None if there is none."""
    digits = name[:OFFSET_DIGITS]
    return int(digits) if len(digits) == OFFSET_DIGITS and digits.isascii() and digits.isdigit() else None
