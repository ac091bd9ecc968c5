"""A pipeline of two tiers in memory, with faults by a seed, and what the audit ought to say about it.

Producers send through ledgers into the logs of a first tier, a mirror copies these into a second one. On the
way records are dropped, doubled, held back for long, and mirrored again. Producers and counters are killed,
reports and deltas are repeated, reordered and come from counters that should have been dead.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import dataclass, field

from ottla.audit.core.book import Book, Key, Place
from ottla.audit.core.counting import PartitionCounter, Rules
from ottla.audit.core.delta import CaughtUp, Delta, delta_value, parse_counts_record
from ottla.audit.core.rows import NamedRange, Row
from ottla.client.audit.ledger import Ledger, Reporter
from ottla.client.audit.mark import HEADER, StreamBucket, parse_mark
from ottla.client.audit.reports import Report, parse_report, report_value
from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import NewRecord, encode_batch, parse_batch_header, records_payload
from ottla.protocol.record_columns import decode_columns

BUCKET_MS = 60_000
LATENESS_MS = 10_000
RULES = Rules(BUCKET_MS, LATENESS_MS)
START_MS = 1_700_000_040_000 // BUCKET_MS * BUCKET_MS
FIRST, SECOND = "app", "lake"
Id = tuple[StreamBucket, int]


@dataclass
class Log:
    """One partition: its batches, each with its records' ids and whether it is visible to readers."""

    batches: list[bytes] = field(default_factory=list)
    records: list[list[NewRecord]] = field(default_factory=list)
    end: int = 0

    def append(self, records: list[NewRecord], dice: random.Random) -> None:
        codec = dice.choice([Codec.NONE, Codec.GZIP])
        self.batches.append(encode_batch(records, base_offset=self.end, codec=codec))
        self.records.append(records)
        self.end += len(records)


class Producer:
    """One instance on a host. told: the largest number that a report has told of each bucket."""

    def __init__(self, host: str, topic: str, instance: uuid.UUID) -> None:
        self.host, self.topic, self.instance = host, topic, instance
        self.ledger = Ledger(Reporter(FIRST, host, "test", BUCKET_MS), instance)
        self.sent: set[Id] = set()
        self.told: Counter[StreamBucket] = Counter()
        self.reports: list[Report] = []

    def send(self, timestamp_ms: int) -> NewRecord:
        with self.ledger.lock:
            slot, mark = self.ledger.sending(self.topic, timestamp_ms)
        self.sent.add((slot.of, slot.next - 1))
        return NewRecord(None, b"value", timestamp_ms, (("other", b"x"), (HEADER, mark)))

    def report(self, at_ms: int, *, final: bool = False) -> None:
        reports = self.ledger.reports(at_ms, final=final)
        self.ledger.told(reports)
        for one in reports:
            self.told[one.of] = one.sent
            self.reports.append(one)


@dataclass
class Expectation:
    """What the audit ought to say of one bucket in one tier."""

    sent: int = 0
    lost: set[Id] = field(default_factory=set)
    doubled: Counter[Id] = field(default_factory=Counter)
    remirrored: int = 0
    late: int = 0
    unreported: int = 0


class World:
    """One run. `run` plays it; `rows` and `expected` are to agree."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.book = Book(LATENESS_MS)
        self.topics = ["orders", "clicks"][: self.dice.randint(1, 2)]
        self.partitions = self.dice.randint(1, 3)
        self.logs = {
            Place(tier, topic): [Log() for _ in range(self.partitions)]
            for topic in self.topics
            for tier, topic in ((FIRST, topic), (SECOND, f"app.{topic}"))
        }
        self.producers: list[Producer] = []
        self.late: Counter[tuple[Place, int]] = Counter()
        self.counts: list[bytes] = []
        self.reports: list[bytes] = []
        self.now_ms = START_MS

    # -- the run ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        buckets = self.dice.randint(1, 3)
        for number in range(self.dice.randint(1, 3)):
            for topic in self.topics:
                instance = uuid.UUID(int=self.dice.getrandbits(128))
                self.producers.append(Producer(f"host{number}", topic, instance))
        for bucket in range(buckets):
            self._play_bucket(START_MS + bucket * BUCKET_MS)
        # a last bucket of its own, so that what was held back is behind much later records everywhere
        self._fill_all(START_MS + (buckets + 1) * BUCKET_MS)
        self._append_held()
        for producer in self.producers:
            if self.dice.random() < 0.6:
                producer.report(self.now_ms, final=True)
        self._mirror()
        self._count_all()
        self._tell_everything()

    def _play_bucket(self, start_ms: int) -> None:
        for _ in range(self.dice.randint(1, 4)):
            producer = self.dice.choice(self.producers)
            log = self.dice.choice(self.logs[Place(FIRST, producer.topic)])
            times = sorted(start_ms + self.dice.randrange(BUCKET_MS) for _ in range(self.dice.randint(1, 40)))
            self.now_ms = max(self.now_ms, times[-1])
            arrived: list[NewRecord] = []
            for timestamp_ms in times:
                record = producer.send(timestamp_ms)
                fate = self.dice.random()
                if fate < 0.05:
                    continue
                if fate < 0.10:
                    self.held.append((Place(FIRST, producer.topic), record))
                    continue
                arrived += [record] * (2 if fate < 0.15 else 3 if fate < 0.16 else 1)
            if self.dice.random() < 0.3:
                self.dice.shuffle(arrived)
            if arrived:
                log.append(arrived, self.dice)
            if self.dice.random() < 0.5:
                producer.report(self.now_ms)
            if self.dice.random() < 0.2:
                self._count_all()

    @property
    def held(self) -> list[tuple[Place, NewRecord]]:
        """Records that are held back."""
        if not hasattr(self, "_held"):
            self._held: list[tuple[Place, NewRecord]] = []
        return self._held

    def _fill_all(self, start_ms: int) -> None:
        for topic in self.topics:
            producer = next(one for one in self.producers if one.topic == topic)
            for log in self.logs[Place(FIRST, topic)]:
                log.append([producer.send(start_ms + BUCKET_MS - 1)], self.dice)
            producer.report(start_ms + BUCKET_MS)
        self.now_ms = start_ms + BUCKET_MS

    def _append_held(self) -> None:
        for place, record in self.held:
            self.dice.choice(self.logs[place]).append([record], self.dice)

    def _mirror(self) -> None:
        """Copy the first tier, losing some records and copying others again."""
        for topic in self.topics:
            source, target = self.logs[Place(FIRST, topic)], self.logs[Place(SECOND, f"app.{topic}")]
            for log, copy in zip(source, target, strict=True):
                for records in log.records:
                    kept = [one for one in records for _ in range(self._copies())]
                    if kept:
                        copy.append(kept, self.dice)

    def _copies(self) -> int:
        fate = self.dice.random()
        return 0 if fate < 0.03 else 2 if fate < 0.06 else 1

    # -- counters --------------------------------------------------------------------------------------------

    def _count_all(self) -> None:
        """Counters come, count some, are killed before or behind their write; the last ones go to the end."""
        for attempt in range(3):
            for place, logs in self.logs.items():
                for partition, log in enumerate(logs):
                    self._count(place, partition, log, is_last=attempt == 2)

    def _count(self, place: Place, partition: int, log: Log, *, is_last: bool) -> None:
        position = self.book.position(*place, partition)
        counter = PartitionCounter(*place, partition, position.offset, position.watermark_ms, RULES)
        for data in log.batches:
            if not is_last and self.dice.random() < 0.2:
                return  # killed: what it had counted was never written
            header = parse_batch_header(data)
            if header.next_offset <= counter.position:
                continue
            payload, now_ms = records_payload(data, 0, header), self.now_ms + 10 * BUCKET_MS
            if self.dice.random() < 0.5:
                counter.count_payload(header, payload, now_ms)
            else:
                counter.count_records(header, decode_columns(payload, header), now_ms)
            if self.dice.random() < 0.5:
                self._write(counter.take(self.now_ms))
        if counter.has_moved:
            self._write(counter.take(self.now_ms))

    def _write(self, delta: Delta) -> None:
        self.counts.append(delta_value(delta))
        self._read_counts(self.counts[-1])
        if self.dice.random() < 0.3:  # a zombie, or a mirrored topic of counts: the same once more
            self._read_counts(self.dice.choice(self.counts))

    def _read_counts(self, value: bytes) -> None:
        found = parse_counts_record(value)
        assert isinstance(found, Delta)
        self.book.counts(found)

    def _tell_everything(self) -> None:
        values = [report_value(one) for producer in self.producers for one in producer.reports]
        values += [one for one in values if self.dice.random() < 0.5]
        self.dice.shuffle(values)
        for value in values:
            report = parse_report(value)
            assert report is not None
            self.book.report(report)
        for tier in (FIRST, SECOND):
            self.book.caught_up(CaughtUp(tier, self.now_ms + 10 * BUCKET_MS))

    # -- what the audit ought to say -------------------------------------------------------------------------

    def expected(self) -> dict[Key, Expectation]:
        found: dict[Key, Expectation] = {}
        seen = {place: self._seen(logs) for place, logs in self.logs.items()}
        for place, counts in seen.items():
            topic = place.topic.removeprefix("app.")
            origin = seen[Place(FIRST, topic)]
            told = {one.instance for one in self.producers if one.reports}
            # a copy is known as one by the first record that arrives there of a producer that has reported
            is_known = place.tier == FIRST or any(of.instance in told for of, _ in counts)
            for producer in self.producers:
                if producer.topic != topic:
                    continue
                ends: Counter[StreamBucket] = Counter(producer.told)
                for of, sequence in counts:
                    ends[of] = max(ends[of], sequence + 1)
                for one in producer.sent:
                    of, sequence = one
                    if not is_known and not any(each.instance == of.instance for each, _ in counts):
                        continue
                    if sequence >= ends[of]:
                        continue  # nobody can know of it: neither reported nor in front of one that was seen
                    each = found.setdefault(Key(*place, of.bucket_start_ms), Expectation())
                    each.sent += sequence < producer.told[of]
                    if not counts[one]:
                        each.lost.add(one)
                        continue
                    each.unreported += sequence >= producer.told[of]
                    if counts[one] > 1:
                        each.doubled[one] = counts[one] - 1
                        if place.tier != FIRST and producer.reports:  # else nobody knows its tier
                            each.remirrored += max(counts[one] - max(1, origin[one]), 0)
        for place, logs in self.logs.items():
            for log in logs:
                self._expect_late(place, log, found)
        return found

    @staticmethod
    def _expect_late(place: Place, log: Log, found: dict[Key, Expectation]) -> None:
        watermark_ms = -1
        for records in log.records:
            for record in records:
                marked = parse_mark(record.headers[-1][1])
                assert marked is not None
                start_ms = marked[0].bucket_start_ms
                if watermark_ms >= start_ms + BUCKET_MS + LATENESS_MS:
                    found[Key(*place, start_ms)].late += 1
            watermark_ms = max(watermark_ms, *(one.timestamp for one in records))

    @staticmethod
    def _seen(logs: list[Log]) -> Counter[Id]:
        seen: Counter[Id] = Counter()
        for log in logs:
            for records in log.records:
                for record in records:
                    marked = parse_mark(record.headers[-1][1])
                    assert marked is not None
                    seen[marked] += 1
        return seen


def named_ids(ranges: tuple[NamedRange, ...], row: Row) -> set[Id]:
    """The single ids that a row's ranges name."""
    return {
        (StreamBucket(uuid.UUID(one.instance), one.stream, row.bucket_start_ms), sequence)
        for one in ranges
        for sequence in range(one.first, one.last + 1)
    }
