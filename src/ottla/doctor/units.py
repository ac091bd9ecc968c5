"""Numbers as people read them: bytes, times, durations."""

from __future__ import annotations

from datetime import UTC, datetime


def bytes_text(size: float) -> str:
    """`1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(seconds: float) -> str:
    """`3 minutes`, `2.5 hours`, `9 days`."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} seconds" if seconds < 10 else f"{seconds:.0f} seconds"


def time_text(timestamp_ms: int) -> str:
    """`2026-01-31 12:00 UTC`."""
    return datetime.fromtimestamp(timestamp_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
