"""A chain's writer over a partition that loses requests and answers, delivers late, and outlives killed runs.

Whatever happens, the log that comes out is whole, every event that was told as written is in it, and none is
in it twice.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.audit.chain_writer import END_FILE, ChainWriter, TooLarge
from ottla.broker.peers.peers import PeerUnreachable
from ottla.protocol.errors import InvalidProducerEpoch, MessageTooLarge, OutOfOrderSequenceNumber
from ottla.protocol.record_batch import BatchHeader, Record, decode_records, parse_batch_header
from ottla.security.audit_chain import ADMINISTRATION, AuditEvent, TimedEvent
from ottla.security.audit_verification import AuditVerifier


class Partition:
    """A leader with the rules for idempotent producers, behind a network that is none."""

    def __init__(self, seed: int, trouble: float) -> None:
        self.random = random.Random(seed)
        self.trouble = trouble
        self.most_records = self.random.choice([1, 3, 1_000])
        self.topic_id: uuid.UUID | None = None
        self.batches: list[tuple[BatchHeader, list[Record]]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.on_the_way: list[bytes] = []
        self._producers: dict[int, tuple[int, int]] = {}
        self._answers: dict[tuple[int, int, int], int] = {}
        self._last_id = 0

    async def make_topic(self) -> None:
        self._may_fail()
        self.topic_id = uuid.uuid4()

    async def new_producer_id(self) -> int:
        self._may_fail()
        self._last_id += 1
        return self._last_id

    async def offsets(self) -> tuple[int, int]:
        self._may_fail()
        return self.start_offset, self.end_offset

    async def batches_of(self, start: int, end: int) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        for header, records in list(self.batches):
            if records[-1].offset >= start and records[0].offset < end:
                self._may_fail()
                yield header, records

    async def produce(self, batch: bytes) -> int:
        self.deliver_some()
        draw = self.random.random()
        if draw < self.trouble / 4:
            raise PeerUnreachable("lost on its way")
        if draw < self.trouble / 2:
            self.on_the_way.append(batch)
            raise PeerUnreachable("late")
        base_offset = self.append(batch)
        if draw < self.trouble:
            raise PeerUnreachable("the answer is lost")
        return base_offset

    def append(self, batch: bytes) -> int:
        header = parse_batch_header(batch)
        key = header.producer_id, header.producer_epoch, header.base_sequence
        if key in self._answers:
            return self._answers[key]
        if header.record_count > self.most_records:
            raise MessageTooLarge
        epoch, following = self._producers.get(header.producer_id, (-1, 0))
        if header.producer_epoch < epoch:
            raise InvalidProducerEpoch
        if header.base_sequence != (following if header.producer_epoch == epoch else 0):
            raise OutOfOrderSequenceNumber
        self._producers[header.producer_id] = (
            header.producer_epoch,
            header.base_sequence + header.record_count,
        )
        records = [
            each._replace(offset=self.end_offset + at) for at, each in enumerate(decode_records(batch))
        ]
        self._answers[key] = self.end_offset
        self.batches.append((header, records))
        self.end_offset += len(records)
        return self._answers[key]

    def deliver_some(self) -> None:
        """Some of what is late arrives; what is refused now is gone."""
        for batch in list(self.on_the_way):
            if self.random.random() < 0.5:
                self.on_the_way.remove(batch)
                try:
                    self.append(batch)
                except (InvalidProducerEpoch, OutOfOrderSequenceNumber, MessageTooLarge):
                    continue

    def _may_fail(self) -> None:
        self.deliver_some()
        if self.random.random() < self.trouble / 4:
            raise PeerUnreachable("not now")


class Batches:
    """The partition as the writer sees it: with its method's name."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.batches = partition.batches_of
        self.produce = partition.produce
        self.offsets = partition.offsets
        self.make_topic = partition.make_topic
        self.new_producer_id = partition.new_producer_id

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.partition.topic_id


def event(name: str) -> TimedEvent:
    return TimedEvent(AuditEvent(ADMINISTRATION, resource_name=name), 1)


def writer_of(partition: Partition, run: str, directory: Path, node: int = 1) -> ChainWriter:
    return ChainWriter(Batches(partition), node, run, directory, lambda: 1)  # type: ignore[arg-type]


async def step(writer: ChainWriter, waiting: list[str], acknowledged: list[str]) -> None:
    try:
        count = await writer.write([event(name) for name in waiting[:500]])
    except (PeerUnreachable, InvalidProducerEpoch, OutOfOrderSequenceNumber, TooLarge):
        return
    acknowledged += waiting[:count]
    del waiting[:count]


def verified(partition: Partition) -> tuple[AuditVerifier, list[str]]:
    verifier = AuditVerifier(log_start_offset=partition.start_offset)
    names = []
    for _, records in partition.batches:
        for each in records:
            if each.offset >= partition.start_offset:
                found = verifier.add(each.key, each.value, each.offset)
                if found is not None and found.event == ADMINISTRATION:
                    names.append(str(found.fields["resource_name"]))
    verifier.finish()
    return verifier, names


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 0.8]))
def test_the_log_is_whole_whatever_happens_on_the_way(seed: int, trouble: float) -> None:
    async def main() -> None:
        draw = random.Random(seed)
        partition = Partition(seed, trouble)
        acknowledged: list[str] = []
        sent: list[str] = []
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            for run in range(draw.randrange(1, 5)):
                writer, waiting = writer_of(partition, f"run-{run}", directory), []
                for at in range(draw.randrange(0, 12)):
                    new = [f"{run}-{at}-{each}" for each in range(draw.randrange(0, 4))]
                    waiting += new
                    sent += new
                    await step(writer, waiting, acknowledged)
                if draw.random() < 0.3:
                    partition.trouble = 0.0
                    while waiting or not writer.is_idle:
                        await step(writer, waiting, acknowledged)
                    writer.finish()
                    while not writer.is_idle:
                        await step(writer, waiting, acknowledged)
                    partition.trouble = trouble
                if draw.random() < 0.2 and not partition.on_the_way:  # another disk
                    (directory / END_FILE).unlink(missing_ok=True)
            partition.trouble = 0.0
            last, waiting = writer_of(partition, "last", directory), ["end"]
            while waiting or not last.is_idle:
                await step(last, waiting, acknowledged)
        found, names = verified(partition)
        assert found.broken.first == []
        assert sorted(set(names)) == sorted(names)
        assert set(acknowledged) <= set(names) <= {*sent, "end"}
        assert [each for each in names if each in acknowledged] == acknowledged

    asyncio.run(main())


def run_to_its_end(partition: Partition, directory: Path, run: str, names: list[str]) -> ChainWriter:
    async def main() -> ChainWriter:
        writer, waiting = writer_of(partition, run, directory), list(names)
        for _ in range(1_000):
            if not waiting and writer.is_idle:
                break
            await step(writer, waiting, [])
        assert not waiting
        return writer

    return asyncio.run(main())


def test_a_node_tells_that_its_last_records_are_gone(tmp_path: Path) -> None:
    partition = Partition(1, 0.0)
    run_to_its_end(partition, tmp_path, "first", ["a", "b"])
    del partition.batches[-1]
    run_to_its_end(partition, tmp_path, "second", ["c"])
    found, _ = verified(partition)
    assert ["the node has found records missing" in each.text for each in found.broken.first].count(True) == 1


def test_a_node_tells_that_all_its_records_are_gone(tmp_path: Path) -> None:
    run_to_its_end(Partition(1, 0.0), tmp_path, "first", ["a", "b"])
    partition = Partition(1, 0.0)  # the topic was deleted, and is made again
    run_to_its_end(partition, tmp_path, "second", ["c"])
    found, _ = verified(partition)
    assert found.broken.count
    assert found.chains[1].first_sequence == 3


def test_a_chain_goes_on_behind_expired_records(tmp_path: Path) -> None:
    partition = Partition(1, 0.0)
    run_to_its_end(partition, tmp_path, "first", ["a", "b"])
    partition.start_offset = partition.end_offset
    partition.batches.clear()
    run_to_its_end(partition, tmp_path, "second", ["c"])
    found, names = verified(partition)
    assert (found.broken.first, names, found.chains[1].first_sequence) == ([], ["c"], 3)


def test_the_end_of_a_chain_is_found_far_from_the_end_of_the_log(tmp_path: Path) -> None:
    """Without the file: behind other nodes' records, window by window."""
    partition = Partition(1, 0.0)
    partition.most_records = 1_000
    run_to_its_end(partition, tmp_path, "first", ["a"])
    (tmp_path / END_FILE).unlink()
    other = tmp_path / "other"
    other.mkdir()

    async def others() -> None:
        writer = writer_of(partition, "of another node", other, node=2)
        waiting = [str(each) for each in range(12_000)]
        while waiting or not writer.is_idle:
            await step(writer, waiting, [])

    asyncio.run(others())
    run_to_its_end(partition, tmp_path, "second", ["b"])
    found, _ = verified(partition)
    assert (found.broken.first, found.chains[1].end.sequence) == ([], 3)


def test_a_file_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    partition = Partition(1, 0.0)
    run_to_its_end(partition, tmp_path, "first", ["a"])
    (tmp_path / END_FILE).write_bytes(b"\0\0\0\0")
    run_to_its_end(partition, tmp_path, "second", ["b"])
    assert verified(partition)[0].broken.first == []
