"""Puts checks to a snapshot: findings of those that can be made, reasons of the others."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.doctor.findings import Check, CheckFindings, NotMade, Report
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import NotRead, Snapshot


def examine(snapshot: Snapshot, checks: Iterable[Check], limits: Limits) -> Report:
    """The outcome of each check. A part that was read in part is told with the findings."""
    made: list[CheckFindings] = []
    not_made: list[NotMade] = []
    for check in checks:
        try:
            for name in check.reads:
                snapshot.part(name).get()
            findings = tuple(check.judge(snapshot, limits))
        except NotRead as missing:
            not_made.append(NotMade(check, missing.gap))
            continue
        left_out = dict.fromkeys(text for name in check.reads for text in snapshot.part(name).left_out)
        made.append(CheckFindings(check, findings, tuple(left_out)))
    return Report(tuple(made), tuple(not_made))
