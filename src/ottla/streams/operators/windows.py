"""Windows of event time, as Kafka Streams defines them.

- Tumbling and hopping: a record at t is in every [start, start + size) with t inside, where start is a
  multiple of `advance`. The key gets start and start + size.
- Cumulating: windows that share a start, a multiple of `size`, and end a step after each other, the last one
  at start + size; a record at t is in those that end after t.
- Sliding: the windows [t' - difference, t'] and (t', t' + difference] of all records t', both ends inside.
- Session: a record is in the session of its key that is at most `gap` away, and merges those it connects. The
  key gets the times of the first and the last record.

A window closes when event time has passed its end by `grace`: later records are dropped and counted.
All times are whole milliseconds, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ottla.streams.operators.words import duration, grace_text


@dataclass(frozen=True, slots=True)
class TumblingWindows:
    """Windows of one size, one after the other."""

    size_ms: int
    grace_ms: int

    @property
    def length_ms(self) -> int:
        """From a window's start to its end."""
        return self.size_ms

    @property
    def in_words(self) -> str:
        """The windows, and when they close."""
        return f"tumbling windows of {duration(self.size_ms)}, {grace_text(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class HoppingWindows:
    """Windows of one size that start every `advance_ms`; a record is in size / advance of them."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    @property
    def length_ms(self) -> int:
        """From a window's start to its end."""
        return self.size_ms

    @property
    def in_words(self) -> str:
        """The windows, and when they close."""
        size, advance = duration(self.size_ms), duration(self.advance_ms)
        return f"hopping windows of {size}, one every {advance}, {grace_text(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class CumulatingWindows:
    """Windows of one start that grow by `step_ms` up to `size_ms`: a record is in size / step at most."""

    size_ms: int
    step_ms: int
    grace_ms: int

    @property
    def length_ms(self) -> int:
        """From the longest window's start to its end."""
        return self.size_ms

    @property
    def in_words(self) -> str:
        """The windows, and when they close."""
        size, step = duration(self.size_ms), duration(self.step_ms)
        return f"windows that grow by {step} up to {size}, {grace_text(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows that hold records at most `difference_ms` apart (KIP-450); both ends are inside."""

    difference_ms: int
    grace_ms: int

    @property
    def length_ms(self) -> int:
        """From a window's start to its end."""
        return self.difference_ms

    @property
    def in_words(self) -> str:
        """The windows, and when they close."""
        apart = duration(self.difference_ms)
        return f"sliding windows of records at most {apart} apart, {grace_text(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions of activity: records of a key at most `gap_ms` apart are in one."""

    gap_ms: int
    grace_ms: int

    @property
    def length_ms(self) -> int:
        """How far a record reaches: the silence that ends a session."""
        return self.gap_ms

    @property
    def in_words(self) -> str:
        """The windows, and when they close."""
        return f"sessions that end after {duration(self.gap_ms)} of silence, {grace_text(self.grace_ms)}"


Windows = TumblingWindows | HoppingWindows | CumulatingWindows | SlidingWindows | SessionWindows


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Which right records a left record meets: those at most `before_ms` older or `after_ms` younger."""

    before_ms: int
    after_ms: int
    grace_ms: int

    @property
    def in_words(self) -> str:
        """Which records meet, and until when."""
        if self.before_ms == self.after_ms:
            reach = f"records at most {duration(self.before_ms)} apart"
        else:
            reach = (
                f"right records at most {duration(self.before_ms)} older"
                f" or {duration(self.after_ms)} younger than the left one"
            )
        return f"{reach}, {grace_text(self.grace_ms)}"


def tumbling(size: timedelta, *, grace: timedelta = timedelta(0)) -> TumblingWindows:
    """Windows of `size` without overlap. Raises ValueError."""
    return TumblingWindows(_positive("size", size), _not_negative("grace", grace))


def hopping(size: timedelta, advance: timedelta, *, grace: timedelta = timedelta(0)) -> HoppingWindows:
    """Windows of `size`, a new one every `advance`. Raises ValueError."""
    size_ms, advance_ms = _positive("size", size), _positive("advance", advance)
    if advance_ms > size_ms:
        raise ValueError(f"windows of {size} that start every {advance} leave records out: advance <= size")
    return HoppingWindows(size_ms, advance_ms, _not_negative("grace", grace))


def cumulating(size: timedelta, step: timedelta, *, grace: timedelta = timedelta(0)) -> CumulatingWindows:
    """Windows of one start that grow by `step` up to `size`, a multiple of it. Raises ValueError."""
    size_ms, step_ms = _positive("size", size), _positive("step", step)
    if size_ms % step_ms:
        raise ValueError(f"windows of {size} don't grow by steps of {step}: size is a multiple of step")
    return CumulatingWindows(size_ms, step_ms, _not_negative("grace", grace))


def sliding(difference: timedelta, *, grace: timedelta = timedelta(0)) -> SlidingWindows:
    """Windows of records at most `difference` apart. Raises ValueError."""
    return SlidingWindows(_not_negative("difference", difference), _not_negative("grace", grace))


def session(gap: timedelta, *, grace: timedelta = timedelta(0)) -> SessionWindows:
    """Sessions that end after `gap` without a record. Raises ValueError."""
    return SessionWindows(_positive("gap", gap), _not_negative("grace", grace))


def within(
    difference: timedelta,
    *,
    before: timedelta | None = None,
    after: timedelta | None = None,
    grace: timedelta = timedelta(0),
) -> JoinWindows:
    """Records at most `difference` apart meet; `before` and `after` set one side. Raises ValueError."""
    before_ms = _not_negative("before", difference if before is None else before)
    after_ms = _not_negative("after", difference if after is None else after)
    return JoinWindows(before_ms, after_ms, _not_negative("grace", grace))


def _milliseconds(name: str, value: timedelta) -> int:
    whole, rest = divmod(value, timedelta(milliseconds=1))
    if rest:
        raise ValueError(f"{name} must be whole milliseconds, not {value}")
    return whole


def _positive(name: str, value: timedelta) -> int:
    if (milliseconds := _milliseconds(name, value)) <= 0:
        raise ValueError(f"{name} must be positive, not {value}")
    return milliseconds


def _not_negative(name: str, value: timedelta) -> int:
    if (milliseconds := _milliseconds(name, value)) < 0:
        raise ValueError(f"{name} must not be negative, not {value}")
    return milliseconds
