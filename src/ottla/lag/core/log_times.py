"""When the records of a partition were written, by the ends of its log that were seen over time.

An end that was read at some time says: the records below it were there, those from it on were not. Two ends
bracket the time at which a record between them was written. Records' own timestamps are finer than the
samples, but producers may set them as they like (a replay writes those of last year): they count where the
bracket allows them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

MAX_SPANS: Final = 32
"""Ends that are kept of a partition; beyond that, every second one of the older half is forgotten."""


class Span(NamedTuple):
    """An end of the log. first_ms: when it was answered first. last_ms: when it was last asked for.

    So the records below it were there at first_ms, and the one at `end` was not there yet at last_ms.
    """

    end: int
    first_ms: int
    last_ms: int


class Bracket(NamedTuple):
    """A record was written after `after_ms` (None: before the log was watched) and not after `before_ms`.

    estimate_ms: where the records between the two were written at an even pace; None without `after_ms`.
    """

    after_ms: int | None
    before_ms: int
    estimate_ms: int | None


class LogTimes:
    """The ends of one partition's log over time."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def __len__(self) -> int:
        return len(self._spans)

    def seen(self, end: int, asked_ms: int, answered_ms: int) -> None:
        """The log was said to end at `end`. One that ends before an earlier end is a new log."""
        spans = self._spans
        if spans and end < spans[-1].end:
            spans.clear()
        if spans and end == spans[-1].end:
            spans[-1] = spans[-1]._replace(last_ms=max(asked_ms, spans[-1].last_ms))
            return
        # a clock that was set back must not make brackets that end before they begin
        earliest_ms = spans[-1].last_ms if spans else asked_ms
        spans.append(Span(end, max(answered_ms, earliest_ms), max(asked_ms, earliest_ms)))
        if len(spans) > MAX_SPANS:
            del spans[1 : MAX_SPANS // 2 : 2]

    def forget_below(self, offset: int) -> None:
        """Records below `offset` are asked for no more."""
        at = self._at(offset)
        if at > 0:
            del self._spans[:at]

    def written(self, offset: int) -> Bracket | None:
        """When the record at `offset` was written; None if the log has not been seen beyond it."""
        spans = self._spans
        at = self._at(offset)
        if at == len(spans) - 1:
            return None
        later = spans[at + 1]
        if at < 0:
            return Bracket(None, later.first_ms, None)
        earlier = spans[at]
        part = (offset + 1 - earlier.end) / (later.end - earlier.end)
        estimate_ms = earlier.last_ms + round(part * (later.first_ms - earlier.last_ms))
        return Bracket(earlier.last_ms, later.first_ms, estimate_ms)

    def _at(self, offset: int) -> int:
        """The place of the last span whose end is at or below `offset`; -1 if there is none."""
        return bisect_right(self._spans, offset, key=lambda span: span.end) - 1


def written_ms(bracket: Bracket | None, timestamp_ms: int | None) -> int | None:
    """When a record was written; None if that is not known. timestamp_ms: its own, None if it has none.

    Within the bracket its own timestamp counts. One outside says something else than when it was written
    (or comes from another clock), and the even pace counts.
    """
    if bracket is None:
        return timestamp_ms
    if bracket.after_ms is None:
        return None if timestamp_ms is None else min(timestamp_ms, bracket.before_ms)
    if timestamp_ms is not None and bracket.after_ms <= timestamp_ms <= bracket.before_ms:
        return timestamp_ms
    return bracket.estimate_ms
