"""The recorded history of clients, and the promises that it must keep.

A `History` has transactions (of which id and epoch, and with which end as far as its client knows), sends,
polls and the last stable offsets that were seen; `LogEntry` rows are the contents of the partitions at the
end. Every checker takes a history and returns the violations it finds, as sentences; an empty list means that
the promise holds.

Values are unique, so a value names its send. An outcome is UNKNOWN if the client got no answer: then both
ends are right, but only one of them, for good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

Partition = tuple[str, int]
TransactionName = tuple[str, int]
"""Transactional id and the number of the transaction."""


class Outcome(Enum):
    """The end of a send or a transaction, as its client was told."""

    UNKNOWN = "unknown"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Transaction:
    """One transaction; DONE is committed, FAILED is aborted."""

    name: TransactionName
    producer_id: int
    epoch: int
    is_v2: bool
    outcome: Outcome = Outcome.UNKNOWN
    reads: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Send:
    """One record; DONE with its offset, or FAILED: the broker said that it was not appended."""

    value: str
    partition: Partition
    transaction: TransactionName | None
    key: str | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1


@dataclass(slots=True)
class Poll:
    """The records that a consumer read of one partition, in order, from `start` on."""

    partition: Partition
    committed_only: bool
    start: int
    records: list[tuple[int, str]]


class LogEntry(NamedTuple):
    """A record of a partition's log, or a marker: `committed` says then how it ends the transaction."""

    partition: Partition
    offset: int
    producer_id: int
    epoch: int
    transactional: bool
    committed: bool | None
    value: str | None


@dataclass(slots=True)
class History:
    """Everything that was recorded."""

    transactions: dict[TransactionName, Transaction] = field(default_factory=dict)
    sends: dict[str, Send] = field(default_factory=dict)
    polls: list[Poll] = field(default_factory=list)
    stable_offsets: dict[Partition, list[int]] = field(default_factory=lambda: defaultdict(list))
    acks: list[tuple[Partition, int, str]] = field(default_factory=list)

    def begin(self, name: str, producer_id: int, epoch: int, *, is_v2: bool) -> Transaction:
        """A new transaction of a transactional id."""
        number = sum(known[0] == name for known in self.transactions)
        transaction = Transaction((name, number), producer_id, epoch, is_v2)
        self.transactions[transaction.name] = transaction
        return transaction

    def send(
        self, value: str, partition: Partition, transaction: Transaction | None, key: str | None = None
    ) -> Send:
        """A record goes out."""
        assert value not in self.sends, "values are unique"
        sent = Send(value, partition, None if transaction is None else transaction.name, key)
        self.sends[value] = sent
        return sent

    def acknowledged(self, send: Send, offset: int) -> None:
        """The broker says that the record is at `offset`; it may say so more than once."""
        send.outcome = Outcome.DONE
        if send.offset < 0:
            send.offset = offset
        self.acks.append((send.partition, offset, send.value))

    def poll(
        self,
        partition: Partition,
        records: Iterable[tuple[int, str]],
        *,
        committed_only: bool,
        start: int = 0,
        inside: Transaction | None = None,
    ) -> None:
        """Records were read, by a consumer or by a transaction that goes on with them."""
        poll = Poll(partition, committed_only, start, list(records))
        self.polls.append(poll)
        if inside is not None:
            inside.reads += [value for _, value in poll.records]

    def saw_stable(self, partition: Partition, offset: int) -> None:
        """A last stable offset was answered."""
        self.stable_offsets[partition].append(offset)

    def outcome_of(self, send: Send) -> Outcome:
        """Whether the record counts: by its transaction, or else by itself."""
        if send.transaction is None or send.outcome is Outcome.FAILED:
            return send.outcome
        return self.transactions[send.transaction].outcome


# --- one value an offset, no duplicates, nothing lost -----------------------------------------------------


def values_that_changed(history: History) -> list[str]:
    """Invariant 1: one (partition, offset) has one value, in all sends and polls."""
    known: dict[tuple[Partition, int], str] = {}
    found = []
    for partition, offset, value in _places(history):
        before = known.setdefault((partition, offset), value)
        if before != value:
            found.append(f"{partition} at {offset} was {before} and is {value}")
    return found


def _places(history: History) -> Iterator[tuple[Partition, int, str]]:
    yield from history.acks
    for poll in history.polls:
        for offset, value in poll.records:
            yield poll.partition, offset, value


def duplicates(history: History) -> list[str]:
    """Invariant 3: under idempotence a value is at one offset, for every client and at all times."""
    places: dict[str, set[tuple[Partition, int]]] = defaultdict(set)
    for partition, offset, value in _places(history):
        places[value].add((partition, offset))
    return [f"{value} is at {sorted(where)}" for value, where in places.items() if len(where) > 1]


def lost_writes(history: History, final: Iterable[Poll]) -> list[str]:
    """Invariants 2 and 6: an acknowledged record, committed if in a transaction, is read in the end."""
    read = {value for poll in final for _, value in poll.records}
    return [
        f"{send.value} was acknowledged at {send.offset} of {send.partition} and is not there"
        for send in history.sends.values()
        if send.outcome is Outcome.DONE
        and history.outcome_of(send) is Outcome.DONE
        and send.value not in read
    ]


# --- isolation --------------------------------------------------------------------------------------------


def aborted_reads(history: History) -> list[str]:
    """Invariant 4, G1a: a consumer of committed records reads no failed or aborted value."""
    found = []
    for poll in history.polls:
        if not poll.committed_only:
            continue
        for offset, value in poll.records:
            send = history.sends.get(value)
            if send is None:
                found.append(f"{value} at {offset} of {poll.partition} was never sent")
            elif history.outcome_of(send) is Outcome.FAILED:
                found.append(f"{value} at {offset} of {poll.partition} was aborted, or refused")
    return found


def torn_transactions(history: History, final: Iterable[Poll]) -> list[str]:
    """All or nothing: of each transaction all acknowledged records are read in the end, or none."""
    read = {value for poll in final for _, value in poll.records}
    of_transaction: dict[TransactionName, list[Send]] = defaultdict(list)
    for send in history.sends.values():
        if send.transaction is not None and send.outcome is Outcome.DONE:
            of_transaction[send.transaction].append(send)
    return [
        f"transaction {name}: some of {[send.value for send in sends]} are there, others are not"
        for name, sends in of_transaction.items()
        if 0 < sum(send.value in read for send in sends) < len(sends)
    ]


def cycles(history: History) -> list[str]:
    """Invariant 4, G1c: no transaction reads, over any chain of others, a record that depends on itself."""
    depends: dict[TransactionName, set[TransactionName]] = defaultdict(set)
    for transaction in history.transactions.values():
        for value in transaction.reads:
            send = history.sends.get(value)
            if send is None or send.transaction is None or send.transaction == transaction.name:
                continue
            if history.transactions[send.transaction].outcome is not Outcome.FAILED:
                depends[transaction.name].add(send.transaction)
    found: list[str] = []
    done: set[TransactionName] = set()

    def visit(name: TransactionName, path: list[TransactionName]) -> None:
        if name in path:
            found.append(f"a cycle of reads: {[*path[path.index(name) :], name]}")
            return
        if name in done:
            return
        for other in depends[name]:
            visit(other, [*path, name])
        done.add(name)

    for name in list(depends):
        visit(name, [])
    return found


# --- one transaction never touches the next ---------------------------------------------------------------


def mixed_transactions(history: History, log: Iterable[LogEntry]) -> list[str]:
    """Invariant 7: between two markers of a producer are records of one transaction, and they end as it did.

    For transactions v2 the marker's epoch is newer than that of what it ends, and nothing is appended with an
    older one after it.
    """
    found = []
    by_producer: dict[tuple[Partition, int], list[LogEntry]] = defaultdict(list)
    for entry in log:
        if entry.transactional:
            by_producer[entry.partition, entry.producer_id].append(entry)
    for (partition, producer_id), entries in by_producer.items():
        opened: dict[TransactionName, Transaction] = {}
        newest = -1
        for entry in sorted(entries, key=lambda each: each.offset):
            where = f"{partition} at {entry.offset}, producer {producer_id}"
            if entry.epoch < newest:
                found.append(f"{where}: epoch {entry.epoch} after {newest}")
            newest = max(newest, entry.epoch)
            if entry.committed is None:
                send = history.sends.get(entry.value or "")
                if send is None or send.transaction is None:
                    found.append(f"{where}: {entry.value} is of no transaction")
                    continue
                opened[send.transaction] = history.transactions[send.transaction]
                if send.outcome is Outcome.FAILED:
                    found.append(f"{where}: {entry.value} was refused and is there")
                continue
            if len(opened) > 1:
                found.append(f"{where}: one marker ends {sorted(opened)}")
            for transaction in opened.values():
                found += _wrong_end(where, entry, transaction)
            opened = {}
    return found


def _wrong_end(where: str, marker: LogEntry, transaction: Transaction) -> list[str]:
    found = []
    expected = {Outcome.DONE: True, Outcome.FAILED: False}.get(transaction.outcome)
    if expected is not None and expected != marker.committed:
        found.append(f"{where}: {transaction.name} ended as {transaction.outcome.value}, the marker says not")
    if transaction.is_v2 and marker.epoch <= transaction.epoch:
        found.append(f"{where}: a marker of epoch {marker.epoch} ends one of epoch {transaction.epoch}")
    return found


def contradicting_markers(history: History, log: Iterable[LogEntry]) -> list[str]:
    """A transaction ends in all of its partitions in the same way."""
    ends: dict[TransactionName, set[bool]] = defaultdict(set)
    opened: dict[tuple[Partition, int], set[TransactionName]] = defaultdict(set)
    for entry in sorted(log, key=lambda each: (each.partition, each.offset)):
        if not entry.transactional:
            continue
        if entry.committed is None:
            send = history.sends.get(entry.value or "")
            if send is not None and send.transaction is not None:
                opened[entry.partition, entry.producer_id].add(send.transaction)
        else:
            for name in opened.pop((entry.partition, entry.producer_id), ()):
                ends[name].add(entry.committed)
    return [f"{name} was committed here and aborted there" for name, how in ends.items() if len(how) > 1]


def stuck_readers(history: History, ends: Mapping[Partition, int]) -> list[str]:
    """Invariant 7: the last stable offset never goes back, and reaches the end once nothing is open."""
    found = []
    for partition, seen in history.stable_offsets.items():
        for before, after in pairwise(seen):
            if after < before:
                found.append(f"{partition}: the last stable offset went from {before} back to {after}")
        if seen and seen[-1] < ends.get(partition, 0):
            found.append(f"{partition}: stable up to {seen[-1]}, though the log ends at {ends[partition]}")
    return found


# --- compaction -------------------------------------------------------------------------------------------


def wrong_tables(history: History, final: Iterable[Poll]) -> list[str]:
    """Invariant 10: compaction keeps the last committed value of every key, and open transactions' records.

    `final` are complete reads of committed records, after every compaction; each key must have the value that
    is the last one among what was ever read committed of its partition.
    """
    expected: dict[tuple[Partition, str], tuple[int, str]] = {}
    for poll in history.polls:
        if not poll.committed_only:
            continue
        for offset, value in poll.records:
            send = history.sends.get(value)
            if send is None or send.key is None:
                continue
            place = (poll.partition, send.key)
            expected[place] = max(expected.get(place, (-1, "")), (offset, value))
    actual: dict[tuple[Partition, str], tuple[int, str]] = {}
    for poll in final:
        for offset, value in poll.records:
            send = history.sends.get(value)
            if send is not None and send.key is not None:
                actual[poll.partition, send.key] = (offset, value)
    return [
        f"{partition}: key {key} is {actual.get((partition, key))}, not {last}"
        for (partition, key), last in expected.items()
        if actual.get((partition, key)) != last
    ]
