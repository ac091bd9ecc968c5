"""Checks of the metadata quorum: its leader, its voters, brokers whose metadata is old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import QuorumView, Replica, Snapshot


def _no_leader(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    quorum = snapshot.quorum.get()
    if quorum.leader < 0:
        yield Finding(
            Severity.CRITICAL,
            "the metadata quorum has no leader: topics, leaders and settings can't change, dead brokers are "
            "not "
            "noticed",
            texts(one.node_id for one in quorum.voters),
            "start controllers until a majority of the voters runs, and see that they reach each other",
        )


def _even(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    voters = sorted(one.node_id for one in snapshot.quorum.get().voters)
    if voters and len(voters) % 2 == 0:
        yield Finding(
            Severity.WARNING,
            f"an even number of voters, {len(voters)}: it bears no more failures than {len(voters) - 1} "
            "would, "
            "and is one more to fail",
            texts(voters),
            "add a controller, or take one out",
            line("quorum", "remove", "--node", voters[-1]),
        )


def _single(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    voters = snapshot.quorum.get().voters
    brokers = len(snapshot.cluster.get().brokers)
    if len(voters) == 1 and brokers > 1:
        yield Finding(
            Severity.WARNING,
            f"one controller for {brokers} brokers: without it nothing can change, and its disk has the only "
            "copy "
            "of the metadata",
            texts(one.node_id for one in voters),
            "run two more controllers, then, on the machine of each, make it a voter",
            line("quorum", "add", "--config", "server.properties"),
        )


def _behind(quorum: QuorumView, replicas: Iterable[Replica], limits: Limits) -> list[tuple[int, str]]:
    """The replicas that have not caught up with the leader for long, and how far they are behind."""
    leader = next((one for one in (*quorum.voters, *quorum.observers) if one.node_id == quorum.leader), None)
    found = []
    for one in replicas:
        if leader is None or one.node_id == quorum.leader:
            continue
        lag = leader.end_offset - one.end_offset
        if leader.caught_up_ms is None or one.caught_up_ms is None:
            if lag > 0 and one.end_offset < 0:
                found.append((one.node_id, "has never fetched"))
            continue
        seconds = (leader.caught_up_ms - one.caught_up_ms) / 1_000
        if one.caught_up_ms <= 0:
            found.append((one.node_id, "has never caught up"))
        elif seconds > limits.voter_behind_seconds and lag > 0:
            found.append((one.node_id, f"{lag:,} records and {seconds:,.0f} s behind"))
        elif seconds > limits.voter_behind_seconds:
            found.append((one.node_id, f"silent for {seconds:,.0f} s"))
    return found


def _voters(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    quorum = snapshot.quorum.get()
    found = _behind(quorum, quorum.voters, limits)
    if found:
        left = len(quorum.voters) - len(found)
        tight = left <= len(quorum.voters) // 2 + 1
        shown = named(f"node {node} {how}" for node, how in found)
        yield Finding(
            Severity.CRITICAL if left <= len(quorum.voters) // 2 else Severity.WARNING,
            f"{counted(len(found), 'voter')} of {len(quorum.voters)} behind: {shown}"
            + ("; no further controller may fail" if tight else ""),
            texts(node for node, _ in found),
            "start the controller, or see why it does not reach the others; one that is gone for good is "
            "taken "
            "out",
            line("quorum", "remove", "--node", found[0][0]),
        )


def _observers(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    quorum = snapshot.quorum.get()
    live = set(snapshot.cluster.get().live())
    found = [
        each
        for each in _behind(quorum, quorum.observers, limits)
        if each[0] in live or snapshot.cluster.get().tells_fenced is False
    ]
    if found:
        shown = named(f"broker {node} {how}" for node, how in found)
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'broker')} with old metadata: {shown}; its clients see old leaders",
            texts(node for node, _ in found),
            "see why the broker does not reach the controllers",
            line("quorum", "status"),
        )


CHECKS: Final = (
    Check("quorum-leader", Severity.CRITICAL, "a metadata quorum without a leader", ("quorum",), _no_leader),
    Check("quorum-behind", Severity.CRITICAL, "voters behind the metadata's leader", ("quorum",), _voters),
    Check(
        "brokers-behind",
        Severity.WARNING,
        "live brokers behind the metadata's leader",
        ("quorum", "cluster"),
        _observers,
    ),
    Check("quorum-even", Severity.WARNING, "an even number of voters", ("quorum",), _even),
    Check(
        "quorum-single",
        Severity.WARNING,
        "one voter in a cluster of several brokers",
        ("quorum", "cluster"),
        _single,
    ),
)
