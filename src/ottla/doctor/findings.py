"""Findings with their severity and their mend, and the checks that could not be made."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.doctor.limits import Limits
    from ottla.doctor.snapshot import Gap, Snapshot

MOST_NAMES: Final = 10
"""Names that a sentence or a command has; the others are counted."""


class Severity(enum.Enum):
    """How bad a finding is. CRITICAL: data or service is lost, or about to be. NOTE: worth knowing."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self]


_RANKS: Final = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of the cluster.

    subjects: the topics, partitions, brokers, groups … that have it, all of them. mend: how it is mended, a
    sentence. command: the line of `ottla` that mends it; None where the mend is outside of the cluster.
    """

    severity: Severity
    summary: str
    subjects: tuple[str, ...]
    mend: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A question to the snapshot.

    fault: a line for lists, `partitions without a leader`. reads: the parts of the snapshot that it needs, by
    their names. also: parts that make it more exact and may be missing. judge: its findings, none for a sound
    cluster.
    """

    name: str
    worst: Severity
    fault: str
    reads: tuple[str, ...]
    judge: Callable[[Snapshot, Limits], Iterable[Finding]]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckFindings:
    """A check that was made. left_out: sentences on the part of the cluster that it did not see."""

    check: Check
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotMade:
    """A check that could not be made, and why: never to be taken for a sound cluster."""

    check: Check
    gap: Gap


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of all checks that were asked for, in the order of the table."""

    made: tuple[CheckFindings, ...]
    not_made: tuple[NotMade, ...]

    def findings(self) -> list[tuple[Check, Finding]]:
        """All findings with their checks, the worst first."""
        found = [(one.check, finding) for one in self.made for finding in one.findings]
        return sorted(found, key=lambda pair: pair[1].severity.rank)

    def worst(self) -> Severity | None:
        """The severity of the worst finding; None without findings."""
        return next((finding.severity for _, finding in self.findings()), None)

    @property
    def has_blind_spots(self) -> bool:
        """Whether the cluster refused answers, gave none, or gave them too late: faults may be hidden."""
        return any(one.gap.why.hides_faults for one in self.not_made) or any(
            one.left_out for one in self.made
        )


def named(names: Iterable[object], most: int = MOST_NAMES) -> str:
    """`a, b and 37 more`."""
    listed = [str(name) for name in names]
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {len(listed) - most:,} more"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 partition`, `2,000 partitions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def texts(names: Iterable[object]) -> tuple[str, ...]:
    """Subjects as texts."""
    return tuple(str(name) for name in names)


def line(*words: object) -> str:
    """A command of `ottla` as a shell takes it; names may have any characters."""
    return shlex.join(["ottla", *map(str, words)])


def some(names: Iterable[object]) -> list[str]:
    """The first names, as many as a command is given."""
    return [str(name) for _, name in zip(range(MOST_NAMES), names, strict=False)]
