"""The table of all checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.config.errors import UsageError
from ottla.doctor.checks import (
    balance,
    brokers,
    clients,
    disks,
    groups,
    quorum,
    replication,
    security,
    topics,
    transactions,
)
from ottla.doctor.findings import Check

FAMILIES: Final = {
    "replicas": replication.CHECKS,
    "brokers": brokers.CHECKS,
    "quorum": quorum.CHECKS,
    "disks": disks.CHECKS,
    "balance and moves": balance.CHECKS,
    "topics": topics.CHECKS,
    "groups": groups.CHECKS,
    "transactions": transactions.CHECKS,
    "security": security.CHECKS,
    "clients": clients.CHECKS,
}
CHECKS: Final[tuple[Check, ...]] = tuple(check for checks in FAMILIES.values() for check in checks)


def chosen(only: Iterable[str], skip: Iterable[str]) -> list[Check]:
    """The checks that a user wants. only: none means all. Raises UsageError for an unknown name."""
    known = {check.name for check in CHECKS}
    wanted, unwanted = set(only), set(skip)
    for name in sorted((wanted | unwanted) - known):
        from difflib import get_close_matches

        similar = get_close_matches(name, known, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else "; `ottla doctor --list` tells all"
        raise UsageError(f"there is no check {name}{hint}")
    return [check for check in CHECKS if (not wanted or check.name in wanted) and check.name not in unwanted]


def parts_of(checks: Iterable[Check]) -> set[str]:
    """The parts of the snapshot that checks read."""
    return {name for check in checks for name in (*check.reads, *check.also)}
