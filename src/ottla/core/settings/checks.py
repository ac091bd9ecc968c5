"""The checks of single settings that are neither ranges nor lists of words."""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.config.validators import Rule

# Compiled when they are first needed: a start needs none of them.
# Kafka takes empty entries as well; Python reads no number of more than 4,300 digits.
_THROTTLED_REPLICA: Final = r"(?:[0-9]{1,10}:[0-9]{1,10})?"
_ISO_DURATION: Final = (
    r"(?i)[+-]?P(?:[+-]?\d+D)?(?:T(?:[+-]?\d+H)?(?:[+-]?\d+M)?(?:[+-]?\d+(?:\.\d{1,9})?S)?)?"
)


def _gzip_level(value: Any) -> str | None:
    if value == -1 or 1 <= value <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


def _throttled_replicas(value: Any) -> str | None:
    if "".join(value) == "*" or all(re.fullmatch(_THROTTLED_REPLICA, item) for item in value):
        return None
    return "Must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],..."


def _share_offset_reset(value: Any) -> str | None:
    if value in ("latest", "earliest"):
        return None
    prefix, _, duration = value.partition(":")
    if (
        prefix == "by_duration"
        and re.fullmatch(_ISO_DURATION, duration)
        and duration[-1:].upper() not in "PT"
    ):
        return None if "-" not in duration else "The duration must not be negative"
    return "String must be latest, earliest or by_duration:PnDTnHnMn.nS"


gzip_level: Final = Rule("from 1 to 9, or -1 for the codec's own choice", _gzip_level)
throttled_replicas: Final = Rule("partition:broker pairs, * for all, or empty", _throttled_replicas)
# KIP-1106.
share_offset_reset: Final = Rule("latest, earliest or by_duration:PnDTnHnMn.nS", _share_offset_reset)
