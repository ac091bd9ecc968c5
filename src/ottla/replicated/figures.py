"""The figures of a replicated state, for metrics: plain numbers that its parts change, read at a scrape."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ottla.metrics.histogram import Histogram

SECONDS_A_MICROSECOND: Final = 1e-6


class WriteOutcome(enum.StrEnum):
    """How a write of the primary ended."""

    STORED = "stored"
    FENCED = "fenced"
    TOO_LARGE = "too_large"
    NOT_PRIMARY = "not_primary"
    LOST = "lost"
    UNKNOWN = "unknown"


class ForwardOutcome(enum.StrEnum):
    """How a request that was passed on to the primary ended."""

    ANSWERED = "answered"
    NO_PRIMARY = "no_primary"
    UNREACHABLE = "unreachable"
    CLIENT_GONE = "client_gone"
    LOST = "lost"


@dataclass(slots=True)
class ReadFigures:
    """The replay of a topic. ends: of the committed records of its partitions, as leaders last told."""

    replayed: int = 0
    failures: int = 0
    ends: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class WriteFigures:
    """The writes of an instance that is, or was, the primary. times: of those that were stored."""

    written: int = 0
    takeovers: int = 0
    outcomes: Counter[WriteOutcome] = field(default_factory=Counter)
    times: Histogram = field(default_factory=lambda: Histogram(SECONDS_A_MICROSECOND))
