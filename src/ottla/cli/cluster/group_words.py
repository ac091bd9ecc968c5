"""Words of `ottla group` as values: topics with partitions, where a reset goes, durations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from ottla.cli.cluster.topic_words import time_ms_of
from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.reset_plan import Reset, ResetKind
from ottla.config.errors import UsageError

MAX_OFFSET: Final = 2**63 - 1
MAX_PARTITIONS_OF_A_WORD: Final = 100_000
_WORDS: Final = {"earliest": ResetKind.EARLIEST, "latest": ResetKind.LATEST, "current": ResetKind.CURRENT}
_PARTITIONS: Final = re.compile(r"\d{1,10}(?:-\d{1,10})?(?:,\d{1,10}(?:-\d{1,10})?)*")
_DURATION: Final = re.compile(
    r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?"
)

TopicChoice = Mapping[str, tuple[int, ...] | None]
"""Topics, each with the partitions that are meant, None for all of them."""


def topic_choice(words: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
    """The topics of `--topic` words: TOPIC or TOPIC:0,2,5-7. Raises UsageError."""
    chosen: dict[str, tuple[int, ...] | None] = {}
    for word in words:
        topic, colon, listed = word.partition(":")
        partitions = _partitions(word, listed) if colon else None
        if not topic:
            raise UsageError(f"--topic {word}: write TOPIC, or TOPIC:0,2,5-7 for some of its partitions")
        before = chosen.get(topic, ())
        chosen[topic] = None if partitions is None or before is None else (*before, *partitions)
    return chosen


def _partitions(word: str, listed: str) -> tuple[int, ...]:
    if not _PARTITIONS.fullmatch(listed) or not listed.isascii():
        raise UsageError(f"--topic {word}: write its partitions as 0,2,5-7")
    found: list[int] = []
    for part in listed.split(","):
        first, _, last = part.partition("-")
        span = range(int(first), int(last or first) + 1)
        if not span or len(span) + len(found) > MAX_PARTITIONS_OF_A_WORD:
            raise UsageError(f"--topic {word}: {part} is no range of partitions")
        found += span
    return tuple(dict.fromkeys(found))


def chosen_partitions(choice: TopicChoice, known: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions that a choice means. known: how many partitions each topic has.

    Raises UsageError for a partition that a topic does not have; every topic of the choice is known.
    """
    found = []
    for topic, partitions in choice.items():
        count = known[topic]
        for partition in range(count) if partitions is None else partitions:
            if partition >= count:
                raise UsageError(f"topic {topic} has no partition {partition}; it has {count}")
            found.append(TopicPartition(topic, partition))
    return found


def reset_of(to: str | None, shift_by: int | None, ago: str | None, now: datetime) -> Reset | None:
    """The one way to choose offsets that the options give; None for none. Raises UsageError for several."""
    given = [
        name for name, value in (("--to", to), ("--shift-by", shift_by), ("--by-duration", ago)) if value
    ]
    if len(given) > 1:
        raise UsageError(f"give only one of {' and '.join(given)}")
    if to is not None:
        return _to(to, now)
    if shift_by is not None:
        if abs(shift_by) > MAX_OFFSET:
            raise UsageError(f"--shift-by {shift_by}: too large for an offset")
        return Reset(ResetKind.SHIFT, shift_by)
    if ago is not None:
        moment = now - _duration(ago)
        return Reset(ResetKind.TIME, max(0, round(moment.timestamp() * 1_000)))
    return None


def _to(text: str, now: datetime) -> Reset:
    if text in _WORDS:
        return Reset(_WORDS[text])
    if text.startswith("@"):
        return Reset(ResetKind.TIME, time_ms_of("--to", text[1:], now))
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_OFFSET:
        return Reset(ResetKind.OFFSET, int(text))
    raise UsageError(
        f"--to {text}: write earliest, latest, current, an offset, or a time after @: @2026-01-31T12:00, @-2h"
    )


def _duration(text: str) -> timedelta:
    """A duration in Java's form, P1DT2H30M. Raises UsageError."""
    found = _DURATION.fullmatch(text.upper())
    if found is None or not any(found.groups()):
        raise UsageError(f"--by-duration {text}: write P1D, PT2H30M, PT10S or the like")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise UsageError(f"--by-duration {text}: longer than any clock counts") from None


def shown_lag(lag_ms: int | None) -> str:
    """A time that a group is behind, as people read it: 3.2s, 5m12s, 4h05m, 3d02h."""
    if lag_ms is None:
        return "-"
    seconds = lag_ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f}s" if lag_ms else "0s"
    minutes, left = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{left:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"
