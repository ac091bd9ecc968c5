"""The counters of one audited producer: gives each record its mark, and makes the reports.

Theory of operation. A record is counted under the lock that is held until the client library has taken it, so
a report never tells of one that was refused: `sending` gives the mark, and `refused` takes the number back if
the library raises, before another record can have the next one. Within a transaction numbers are given but
not reported: a commit makes them count, an abort gives them out again, since nobody who reads committed
records ever sees the first ones. No I/O; the clock is the caller's.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from typing import Final

from ottla.client.audit.mark import LAST_BUCKET_MS, MOST_SEQUENCES, StreamBucket, mark_prefix
from ottla.client.audit.reports import DEFAULT_BUCKET_MS, Report

MOST_SLOTS: Final = 100_000
"""Buckets that a producer keeps; those that were reported long ago leave first."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports. bucket_ms: whole seconds."""

    tier: str
    host: str
    client: str = ""
    bucket_ms: int = DEFAULT_BUCKET_MS


class Slot:
    """One bucket of one stream. next: the sequence of its next record. settled: how many count."""

    __slots__ = ("end_ms", "next", "of", "prefix", "reported", "settled", "start_ms", "topic")

    def __init__(self, topic: str, of: StreamBucket, bucket_ms: int) -> None:
        self.topic = topic
        self.of = of
        self.prefix = mark_prefix(of)
        self.start_ms = of.bucket_start_ms
        self.end_ms = of.bucket_start_ms + bucket_ms
        self.next = 0
        self.settled = 0
        self.reported = 0


class Ledger:
    """What one producer has sent. `lock` is held from `sending` until the record is taken or refused.

    newest: of each topic, the bucket of its last record. in_transaction: what is sent does not count yet.
    """

    def __init__(self, reporter: Reporter, instance: uuid.UUID) -> None:
        """Raises ValueError for a bucket that is not whole seconds."""
        if reporter.bucket_ms < 1_000 or reporter.bucket_ms % 1_000:
            raise ValueError(f"a bucket of {reporter.bucket_ms} ms: it is to be of whole seconds")
        self.lock = threading.Lock()
        self._reporter = reporter
        self._instance = instance
        self.newest: dict[str, Slot] = {}
        self._slots: dict[tuple[str, int], Slot] = {}
        self._stream_of: dict[str, int] = {}
        self._streams = 0
        self._ended: list[Slot] = []
        self._number = 0
        self.in_transaction = False

    def sending(self, topic: str, timestamp_ms: int) -> tuple[Slot, bytes]:
        """Count a record, under the lock; where it is counted, and its mark."""
        slot = self.newest.get(topic)
        if slot is None or not slot.start_ms <= timestamp_ms < slot.end_ms or slot.next >= MOST_SEQUENCES:
            slot = self._slot(topic, timestamp_ms)
        sequence = slot.next
        slot.next = sequence + 1
        if not self.in_transaction:
            slot.settled = sequence + 1
        return slot, slot.prefix + sequence.to_bytes(4, "big")

    def refused(self, slot: Slot) -> None:
        """Take back the record that was counted last, under the same hold of the lock."""
        slot.next -= 1
        if not self.in_transaction:
            slot.settled = slot.next

    def begin_transaction(self) -> None:
        """What is sent from now on counts when it is committed."""
        with self.lock:
            self.in_transaction = True

    def end_transaction(self, *, committed: bool) -> None:
        """What was sent in the transaction counts, or was never sent."""
        with self.lock:
            self.in_transaction = False
            for slot in (*self._slots.values(), *self._ended):
                if committed:
                    slot.settled = slot.next
                else:
                    slot.next = slot.settled

    def reports(self, at_ms: int, *, final: bool = False) -> list[Report]:
        """What has changed since it was last told; all of it for the last time if `final`."""
        with self.lock:
            changed = [
                slot
                for slot in (*self._slots.values(), *self._ended)
                if slot.settled > (0 if final else slot.reported)
            ]
            found = []
            for slot in changed:
                self._number += 1
                found.append(
                    Report(
                        self._reporter.tier,
                        self._reporter.host,
                        self._reporter.client,
                        slot.topic,
                        slot.of,
                        self._reporter.bucket_ms,
                        slot.settled,
                        self._number,
                        at_ms,
                        final,
                    )
                )
            return found

    def told(self, reports: list[Report]) -> None:
        """These reports are in the topic; a full ledger forgets the oldest buckets of which all is told."""
        with self.lock:
            sent = {report.of: report.sent for report in reports}
            for slot in (*self._slots.values(), *self._ended):
                slot.reported = max(slot.reported, sent.get(slot.of, -1))
            self._ended = [slot for slot in self._ended if slot.reported != slot.settled]
            if len(self._slots) > MOST_SLOTS:
                self._forget()

    def _slot(self, topic: str, timestamp_ms: int) -> Slot:
        bucket_ms = self._reporter.bucket_ms
        start_ms = min(max(timestamp_ms, 0), LAST_BUCKET_MS) // bucket_ms * bucket_ms
        slot = self._slots.get((topic, start_ms))
        if slot is not None and slot.next >= MOST_SEQUENCES:
            self._ended.append(slot)
            del self._stream_of[topic]
            slot = None
        if slot is None:
            stream = self._stream_of.get(topic)
            if stream is None:
                stream = self._stream_of[topic] = self._streams
                self._streams += 1
            of = StreamBucket(self._instance, stream, start_ms)
            slot = self._slots[topic, start_ms] = Slot(topic, of, bucket_ms)
        self.newest[topic] = slot
        return slot

    def _forget(self) -> None:
        """Forget half of the buckets, the oldest that are told; a topic that comes back has a new stream."""
        told = sorted(
            (key for key, slot in self._slots.items() if slot.reported == slot.settled == slot.next),
            key=lambda key: key[1],
        )
        for key in told[: MOST_SLOTS // 2]:
            del self._slots[key]
            self.newest.pop(key[0], None)
            self._stream_of.pop(key[0], None)
