"""The records that connectors read and write, with schemas, headers and the place they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from ottla.connect.data.schema import Schema

SourcePartition = Mapping[str, Any]
"""A part of a source that is read in one order, as a JSON object: {"filename": "a.txt"}."""
SourceOffset = Mapping[str, Any]
"""A place in a source partition, as a JSON object: {"position": 17}."""


class Header(NamedTuple):
    """A header of a record; the schema is None where it is not known."""

    name: str
    value: Any
    schema: Schema | None = None


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Record:
    """What records of sources and sinks have in common; transforms see only this.

    partition: None lets the producer choose. timestamp_ms: None is the time of writing. offset: the place in
    its partition of a record from Kafka, None for a source's record.
    """

    topic: str
    partition: int | None = None
    key: Any = None
    key_schema: Schema | None = None
    value: Any = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record for Kafka, and where its source goes on after it."""

    record: Record
    source_partition: SourcePartition = field(default_factory=dict)
    source_offset: SourceOffset = field(default_factory=dict)


class SourceProgress(Sequence[SourceRecord]):
    """A batch without records: the source has got to an offset, with nothing for Kafka on the way.

    The offset is stored like one behind records, and `committed` is told of it.
    """

    __slots__ = ("source_offset", "source_partition")

    def __init__(self, source_partition: SourcePartition, source_offset: SourceOffset) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset

    def __len__(self) -> int:
        return 0

    @overload
    def __getitem__(self, index: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[SourceRecord]: ...
    def __getitem__(self, index: int | slice) -> SourceRecord | list[SourceRecord]:
        if isinstance(index, slice):
            return []
        raise IndexError(index)


class SourceBatch(Sequence[SourceRecord]):
    """Records of one source partition for one topic, by columns: a fast source yields them.

    Where no transform needs each record, a task sends the columns without an object for each record.
    place_after: the source offset after the record of an index. keys, timestamps_ms: None for none.
    """

    __slots__ = (
        "key_schema",
        "keys",
        "place_after",
        "source_partition",
        "timestamps_ms",
        "topic",
        "value_schema",
        "values",
    )

    def __init__(
        self,
        topic: str,
        source_partition: SourcePartition,
        place_after: Callable[[int], SourceOffset],
        values: Sequence[Any],
        value_schema: Schema | None = None,
        keys: Sequence[Any] | None = None,
        key_schema: Schema | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        self.topic = topic
        self.source_partition = source_partition
        self.place_after = place_after
        self.values = values
        self.value_schema = value_schema
        self.keys = keys
        self.key_schema = key_schema
        self.timestamps_ms = timestamps_ms

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[SourceRecord]: ...
    def __getitem__(self, index: int | slice) -> SourceRecord | list[SourceRecord]:
        if isinstance(index, slice):
            return [self._record(each) for each in range(*index.indices(len(self)))]
        return self._record(range(len(self))[index])

    def __iter__(self) -> Iterator[SourceRecord]:
        return map(self._record, range(len(self)))

    def _record(self, index: int) -> SourceRecord:
        record = Record(
            self.topic,
            None,
            None if self.keys is None else self.keys[index],
            self.key_schema,
            self.values[index],
            self.value_schema,
            None if self.timestamps_ms is None else self.timestamps_ms[index],
        )
        return SourceRecord(record, self.source_partition, self.place_after(index))


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """A record from Kafka. `place`: where it was consumed, whatever transforms made of its topic."""

    record: Record
    place: TopicPartition
    offset: int
