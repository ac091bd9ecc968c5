"""Gives records of the input to a writer: encoded, with a partition, in batches. What `ottla produce` does.

Lines in columns go to the writer in columns; records with headers, times or partitions of their own are
gathered for each partition until there are enough for a batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.cli.records.formats import Encode
from ottla.cli.records.input_records import BadInput, InputRecord
from ottla.cli.records.inputs import Chunk, slices
from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.batches import Gathering, column_batches
from ottla.client.records.partitioner import Partitioner
from ottla.client.records.writer import RecordWriter
from ottla.config.errors import UserError
from ottla.protocol.record_batch import NewRecord
from ottla.protocol.record_columns import Headers

SLICES_A_SECOND: Final = 20
LARGEST_HEADERS: Final = 100_000


class InputProblem(UserError):
    """A record of the input that can't be written. source: the line."""

    def __init__(self, message: str, source: int) -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a record has where the input does not say: the topic, and fields given as options.

    empty_is_null: an empty key or value is none. null: a key or value of this text is none.
    """

    topic: str
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    empty_is_null: bool = False
    null: bytes | None = None


class Producing:
    """Gives records to a writer. All calls raise ClusterError, and InputProblem for a record."""

    def __init__(
        self,
        writer: RecordWriter,
        defaults: Defaults,
        encode_key: Encode,
        encode_value: Encode,
        *,
        formats_are_plain: bool,
        batch_bytes: int,
        rate: float | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.given = 0
        self._writer = writer
        self._defaults = defaults
        self._encode_key = encode_key
        self._encode_value = encode_value
        self._formats_are_plain = formats_are_plain
        self._batch_bytes = batch_bytes
        self._rate = rate
        self._now_ms = now_ms
        self._began: float | None = None
        self._partitioners: dict[str, Partitioner] = {}
        self._gathered: dict[TopicPartition, Gathering] = {}

    async def add(self, chunk: Chunk, *, is_live: bool) -> None:
        """Write a chunk's records. is_live: more may be long in coming, so don't wait for it."""
        if self._rate is None:
            await self._add(chunk)
            if is_live:
                await self.send_gathered()
            return
        for part in slices(chunk, max(1, round(self._rate / SLICES_A_SECOND))):
            await self._pace()
            await self._add(part)
            await self.send_gathered()

    async def send_gathered(self) -> None:
        """Give everything that waits for a full batch to the writer."""
        for gathering in self._gathered.values():
            if gathering.records:
                await self._writer.add(gathering.close())

    async def _pace(self) -> None:
        """Wait until as many records are due as were given."""
        assert self._rate is not None
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        due = self._began + self.given / self._rate
        if due > now:
            await asyncio.sleep(due - now)

    async def _add(self, chunk: Chunk) -> None:
        if len(chunk.values):
            await self._add_columns(chunk)
        for record in chunk.records:
            await self._add_record(record)

    # -- columns ---------------------------------------------------------------------------------------------

    async def _add_columns(self, chunk: Chunk) -> None:
        defaults = self._defaults
        keys, values = self._with_nulls(chunk)
        if defaults.headers or defaults.timestamp_ms is not None or not self._formats_are_plain:
            for at, value in enumerate(values):
                key = None if keys is None else keys[at]
                await self._add_record(InputRecord(key, value, (), None, None, None, chunk.sources[at]))
            return
        partitioner = await self._partitioner(defaults.topic)
        now_ms = self._now_ms()
        if defaults.partition is not None or partitioner.partition_count == 1:
            partition = TopicPartition(defaults.topic, defaults.partition or 0)
            await self._write_columns(partition, keys, values, chunk.sources, now_ms)
        elif keys is None:
            await self._write_sticky(partitioner, values, chunk.sources, now_ms)
        else:
            await self._write_by_key(partitioner, keys, values, chunk.sources, now_ms)
        self.given += len(values)

    def _with_nulls(self, chunk: Chunk) -> tuple[Sequence[bytes | None] | None, Sequence[bytes | None]]:
        defaults = self._defaults
        keys, values = chunk.keys, chunk.values
        if defaults.empty_is_null:
            values = [value or None for value in values]
            keys = None if keys is None else [key or None for key in keys]
        if defaults.null is not None:
            null = defaults.null
            values = [None if value == null else value for value in values]
            keys = None if keys is None else [None if key == null else key for key in keys]
        if defaults.key is not None:
            if keys is None:
                keys = [defaults.key] * len(values)
            elif chunk.keys is not None:
                # a line without a separator has the fixed key
                keys = [
                    defaults.key if given is None else key
                    for given, key in zip(chunk.keys, keys, strict=True)
                ]
        return keys, values

    async def _write_columns(
        self,
        partition: TopicPartition,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        sources: Sequence[int],
        now_ms: int,
    ) -> None:
        for batch in column_batches(partition, keys, values, sources, now_ms, self._batch_bytes):
            await self._writer.add(batch)

    async def _write_sticky(
        self, partitioner: Partitioner, values: Sequence[bytes | None], sources: Sequence[int], now_ms: int
    ) -> None:
        topic = self._defaults.topic
        place = TopicPartition(topic, partitioner.sticky)
        for batch in column_batches(place, None, values, sources, now_ms, self._batch_bytes):
            batch.partition = TopicPartition(topic, partitioner.sticky)
            await self._writer.add(batch)
            partitioner.move_on()

    async def _write_by_key(
        self,
        partitioner: Partitioner,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        sources: Sequence[int],
        now_ms: int,
    ) -> None:
        places: dict[int, list[int]] = {}
        sticky, of_key = partitioner.sticky, partitioner.of_key
        for at, key in enumerate(keys):
            index = sticky if key is None else of_key(key)
            places.setdefault(index, []).append(at)
        for index, chosen in places.items():
            await self._write_columns(
                TopicPartition(self._defaults.topic, index),
                [keys[at] for at in chosen],
                [values[at] for at in chosen],
                [sources[at] for at in chosen],
                now_ms,
            )
        partitioner.move_on()

    # -- one by one ------------------------------------------------------------------------------------------

    async def _add_record(self, record: InputRecord) -> None:
        defaults = self._defaults
        key = self._encoded("key", self._encode_key, self._given_key(record.key), record.source)
        value = self._encoded("value", self._encode_value, self._nulled(record.value), record.source)
        topic = defaults.topic if record.topic is None else record.topic
        partitioner = await self._partitioner(topic, record.source)
        index = defaults.partition if record.partition is None else record.partition
        if index is None:
            index = partitioner.sticky if key is None else partitioner.of_key(key)
        elif index >= partitioner.partition_count:
            raise InputProblem(
                f"topic {topic} has no partition {index}, only {partitioner.partition_count} of them",
                record.source,
            )
        timestamp = defaults.timestamp_ms if record.timestamp_ms is None else record.timestamp_ms
        place = TopicPartition(topic, index)
        gathering = self._gathered.get(place)
        if gathering is None:
            gathering = self._gathered[place] = Gathering(place)
        new = NewRecord(
            key,
            value,
            self._now_ms() if timestamp is None else timestamp,
            (*defaults.headers, *record.headers),
        )
        self.given += 1
        if gathering.add(new, record.source) >= self._batch_bytes:
            await self._writer.add(gathering.close())
            if key is None:
                partitioner.move_on()

    def _given_key(self, key: Any) -> Any:
        return self._defaults.key if key is None else self._nulled(key)

    def _nulled(self, given: Any) -> Any:
        defaults = self._defaults
        if isinstance(given, bytes) and (
            (defaults.empty_is_null and not given) or (defaults.null is not None and given == defaults.null)
        ):
            return None
        return given

    def _encoded(self, name: str, encode: Encode, given: Any, source: int) -> bytes | None:
        try:
            return encode(given)
        except BadInput as problem:
            raise InputProblem(f"the {name}: {problem}", source) from None

    async def _partitioner(self, topic: str, source: int | None = None) -> Partitioner:
        found = self._partitioners.get(topic)
        if found is None:
            leaders = self._writer.leaders
            problems = await leaders.learn([topic])
            if not leaders.partition_count(topic):
                problem = problems.get(topic) or ClusterError(f"topic {topic} has no partitions")
                if source is not None and topic != self._defaults.topic:
                    raise InputProblem(str(problem), source)
                raise problem
            found = Partitioner(leaders.partition_count(topic), leaders.available(topic))
            self._partitioners[topic] = found
        return found

    async def prepare(self) -> None:
        """Learn of the topic, before any input is read. Raises ClusterError."""
        partitioner = await self._partitioner(self._defaults.topic)
        index = self._defaults.partition
        if index is not None and index >= partitioner.partition_count:
            raise ClusterError(
                f"topic {self._defaults.topic} has no partition {index}, only "
                f"{partitioner.partition_count} of them"
            )
