"""Decides when to tell of a group that is not well, and when to tell that it is well again.

An incident begins with the first verdict that is not OK and ends with the first that is. As in Burrow, it is
told once its status has reached the threshold, and again after each interval for as long as it lasts. Unlike
in Burrow, its end is told only if it was told itself, and a group that vanishes ends its incident.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.lag.core.tracker import GroupVerdict
from ottla.lag.core.verdicts import Status


class NoticeKind(enum.Enum):
    """Whether an incident is open or has ended."""

    OPEN = "open"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about a group. incident: its id. verdict: the present one, None for a group that is gone."""

    kind: NoticeKind
    incident: str
    group: str
    status: Status
    started_ms: int
    at_ms: int
    verdict: GroupVerdict | None


@dataclass(frozen=True, slots=True)
class NoticeRules:
    """threshold: the least status that is told. interval_ms: between two messages of one incident.

    once: whether an incident is told only once. closes: whether its end is told.
    """

    threshold: Status = Status.WARN
    interval_ms: int = 0
    once: bool = False
    closes: bool = True


@dataclass(slots=True)
class _Incident:
    id: str
    started_ms: int
    told_ms: int | None = None


class Incidents:
    """The open incidents of one cluster."""

    def __init__(self, rules: NoticeRules, new_id: Callable[[], str]) -> None:
        self._rules = rules
        self._new_id = new_id
        self._open: dict[str, _Incident] = {}

    def __len__(self) -> int:
        return len(self._open)

    def judged(self, verdict: GroupVerdict, now_ms: int) -> Notice | None:
        """The message that a verdict gives rise to."""
        group, status, rules = verdict.group, verdict.status, self._rules
        if status <= Status.OK:
            return self._close(group, status, now_ms, verdict)
        incident = self._open.get(group)
        if incident is None:
            incident = self._open[group] = _Incident(self._new_id(), now_ms)
        if status < rules.threshold:
            return None
        told_ms = incident.told_ms
        if told_ms is not None and (rules.once or now_ms - told_ms < rules.interval_ms):
            return None
        incident.told_ms = now_ms
        return Notice(NoticeKind.OPEN, incident.id, group, status, incident.started_ms, now_ms, verdict)

    def gone_but(self, groups: Iterable[str], now_ms: int) -> list[Notice]:
        """The messages about incidents of groups that are not among these."""
        gone = self._open.keys() - set(groups)
        notices = [self._close(group, Status.NOTFOUND, now_ms, None) for group in sorted(gone)]
        return [one for one in notices if one is not None]

    def _close(self, group: str, status: Status, now_ms: int, verdict: GroupVerdict | None) -> Notice | None:
        incident = self._open.pop(group, None)
        if incident is None or incident.told_ms is None or not self._rules.closes:
            return None
        return Notice(NoticeKind.CLOSE, incident.id, group, status, incident.started_ms, now_ms, verdict)
