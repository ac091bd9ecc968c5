"""Words of `ottla topic` as values: assignments of replicas, settings, the place before which to purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ottla.config.errors import UsageError

MAX_OFFSET: Final = 2**63 - 1
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_BYTE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a partition: an offset, or the first record that is as late as a time."""

    offset: int | None = None
    time_ms: int | None = None


def assignment_of(text: str) -> list[list[int]]:
    """The brokers of each partition, `1:2,2:3` as kafka-topics.sh has it. Raises UsageError."""
    replicas = []
    for number, part in enumerate(text.split(",")):
        words = [word.strip() for word in part.split(":")]
        if not all(word.isascii() and word.isdecimal() and len(word) < 11 for word in words):
            raise UsageError(
                f"--replica-assignment {text}: partition {number} has {part!r}; write the brokers' ids with "
                "colons between, the partitions with commas: 1:2,2:3"
            )
        brokers = [int(word) for word in words]
        if len(set(brokers)) < len(brokers):
            raise UsageError(f"--replica-assignment {text}: partition {number} has a broker twice")
        replicas.append(brokers)
    if len({len(brokers) for brokers in replicas}) > 1:
        raise UsageError(f"--replica-assignment {text}: every partition needs as many replicas")
    return replicas


def pairs_of(option: str, words: Sequence[str]) -> dict[str, str]:
    """The pairs of KEY=VALUE. Raises UsageError for a word that is none, and for a key with two values."""
    pairs: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        name = name.strip()
        if not separator or not name:
            raise UsageError(f"{option} {word}: write KEY=VALUE")
        if pairs.setdefault(name, value) != value:
            raise UsageError(f"{option} {word}: {name} is given twice")
    return pairs


def place_of(option: str, text: str, now: datetime) -> Place:
    """The place that a word names: an offset, or after `@` a time (see `time_ms_of`). Raises UsageError."""
    if text.startswith("@"):
        return Place(time_ms=time_ms_of(option, text[1:], now))
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_OFFSET):
        raise UsageError(f"{option} {text}: write an offset, or a time after @: @2026-01-31T12:00, @-2h")
    return Place(offset=int(text))


def time_ms_of(option: str, text: str, now: datetime) -> int:
    """A time in ms since 1970: ISO 8601 (UTC without a zone), such a number, or `-2h` for two hours ago.

    The units of the last form are s, m, h, d, w. Raises UsageError.
    """
    try:
        if text.isascii() and text.isdecimal() and len(text) > 8:
            found = int(text)
        elif text[:1] == "-" and text[-1:] in _UNITS and text[1:-1].isascii() and text[1:-1].isdecimal():
            found = _ms(now - timedelta(seconds=int(text[1:-1]) * _UNITS[text[-1]]))
        else:
            given = datetime.fromisoformat(text)
            found = _ms(given if given.tzinfo is not None else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        found = -1
    if not 0 <= found <= MAX_OFFSET:
        raise UsageError(
            f"{option} @{text}: not a time; write 2026-01-31T12:00 (UTC, or with its zone), -2h for two "
            "hours ago, or milliseconds since 1970"
        )
    return found


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def shown_bytes(size: int) -> str:
    """A number of bytes as people read it: 512 B, 1.5 KiB."""
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in _BYTE_UNITS:
        amount /= 1024
        if amount < 999.95 or unit == _BYTE_UNITS[-1]:
            break
    return f"{amount:.1f} {unit}"
