"""The start offset of a share group on a partition new to it: share.auto.offset.reset (KIP-932)."""

from __future__ import annotations

import re

LATEST = "latest"
EARLIEST = "earliest"
BY_DURATION = "by_duration:"

_DURATION = re.compile(r"\+?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def reset_timestamp_ms(strategy: str, now_ms: int) -> int | None:
    """The time whose first record from then on is the start; None for "latest" and "earliest".

    Raises ValueError for an unknown strategy.
    """
    if strategy in (LATEST, EARLIEST):
        return None
    if not strategy.startswith(BY_DURATION):
        raise ValueError(f"{strategy!r} is not an offset reset strategy")
    return now_ms - duration_ms(strategy.removeprefix(BY_DURATION))


def duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration of days, hours, minutes and seconds, not negative. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 duration")
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    seconds = float(match[4] or 0)
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + int(seconds * 1000)
