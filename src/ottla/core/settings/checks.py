"""What single settings allow beyond ranges and lists of words."""

from __future__ import annotations

import re
from typing import Any

_THROTTLED_REPLICA = re.compile(r"\d+:\d+")
_ISO_DURATION = re.compile(
    r"[+-]?P(?:[+-]?\d+D)?(?:T(?:[+-]?\d+H)?(?:[+-]?\d+M)?(?:[+-]?\d+(?:\.\d{1,9})?S)?)?", re.I
)


def gzip_level(value: Any, /) -> str | None:
    """-1 (the codec's own choice) or 1 to 9."""
    if value == -1 or 1 <= value <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


def throttled_replicas(value: Any, /) -> str | None:
    """`*`, nothing, or partition:broker pairs."""
    if not value or value == ("*",) or all(_THROTTLED_REPLICA.fullmatch(item) for item in value):
        return None
    return "Must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."


def share_offset_reset(value: Any, /) -> str | None:
    """latest, earliest or by_duration:<ISO 8601 duration, not negative> (KIP-1106)."""
    if value in ("latest", "earliest"):
        return None
    prefix, _, duration = value.partition(":")
    if prefix == "by_duration" and _ISO_DURATION.fullmatch(duration) and duration[-1:].upper() not in "PT":
        return None if "-" not in duration else "The duration must not be negative"
    return "String must be latest, earliest or by_duration:PnDTnHnMn.nS"
