"""Checks of transactions and producers: those that hang, those that are open for long, too many ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import Snapshot
from ottla.doctor.units import duration_text

OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PreparedTransaction"})


def _hanging(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = snapshot.hanging.get()
    if found:
        first = found[0]
        oldest = max(snapshot.taken_ms - one.last_written_ms for one in found) / 1_000
        yield Finding(
            Severity.CRITICAL,
            f"{counted(len(found), 'transaction')} that no coordinator will end, up to "
            f"{duration_text(oldest)} old: "
            "readers of committed records wait before it for ever, and the log is not compacted",
            texts(dict.fromkeys(one.partition for one in found)),
            f"abort it in its partition (producer {first.producer_id})",
            line(
                *("txn", "abort", "--topic", first.partition.topic),
                *("--partition", first.partition.partition, "--start-offset", first.start_offset),
            ),
        )


def _long(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = []
    for one in snapshot.transactions.get():
        seconds = (snapshot.taken_ms - (one.started_ms or snapshot.taken_ms)) / 1_000
        if one.state in OPEN_STATES and seconds > limits.transaction_minutes * 60:
            found.append((one.transactional_id, seconds))
    found.sort(key=lambda pair: -pair[1])
    if found:
        shown = named(f"{name} ({duration_text(seconds)})" for name, seconds in found)
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'transaction')} open for long: {shown}; readers of committed records wait",
            texts(name for name, _ in found),
            "see whether the producer still works; if not, abort its transaction",
            line("txn", "force-terminate", found[0][0]),
        )


def _producers(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    counts = snapshot.producers.get()
    found = [place for place in counts if counts[place] > limits.producers_a_partition]
    found.sort(key=lambda place: -counts[place])
    if found:
        shown = named((f"{place} ({counts[place]:,})" for place in found), 5)
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'partition')} with very many producer ids: {shown}; each costs the broker "
            "memory, for a day after its last record",
            texts(found),
            "let producers live long in place of one for each record; let brokers forget ids earlier "
            "(producer.id.expiration.ms, here an hour)",
            line("config", "set", "broker", "default", "producer.id.expiration.ms=3600000"),
        )


CHECKS: Final = (
    Check(
        "transactions-hanging",
        Severity.CRITICAL,
        "transactions that no coordinator will end",
        ("hanging",),
        _hanging,
    ),
    Check("transactions-long", Severity.WARNING, "transactions open for long", ("transactions",), _long),
    Check(
        "producer-ids", Severity.WARNING, "partitions with very many producer ids", ("producers",), _producers
    ),
)
