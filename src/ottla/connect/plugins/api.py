"""A connector in Python is one small class: a `SourceConnector` or a `SinkConnector`.

One object is one task: it is made from the connector's settings, used by one thread, and closed. Settings
stand in a table of `ottla.config`; a combination of values that can't be is refused in `__init__`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.data.record import (
    Record,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)


class RetriableError(Exception):
    """The other system can't be used now: the task tries the same records again, as errors.retry.* say."""


class RecordError(Exception):
    """One record of a batch can't be written: it goes to the dead letters, or ends the task.

    position: of the record in the batch given to `write`; those before it were taken, those after it not.
    """

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


class SourceConnector(Protocol):
    """Reads another system. Its source partitions are spread over at most tasks.max tasks."""

    TABLE: ClassVar[Table]
    """The connector's own settings; those of every connector (name, tasks.max, …) stand elsewhere."""
    VERSION: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""

    def partitions(self) -> Sequence[SourcePartition]:
        """The source partitions now. Asked again from time to time: other ones restart the tasks."""

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        """The records of a partition after an offset (None: from its start), in batches of some hundreds.

        A batch may be a SourceBatch, which is faster. An empty batch says that there is nothing now: the task
        asks the iterator again a moment later; a SourceProgress is an empty one that moves the offset. An
        iterator that ends has read all there will be. It is closed (GeneratorExit) when the task stops. After
        a RetriableError the task calls `read` again, from the last record that it was given.
        """

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Everything up to this offset is in Kafka, and so is the offset: the source may forget it."""

    def close(self) -> None:
        """Give everything up."""


@runtime_checkable
class NamesConverters(Protocol):
    """What a source connector has besides if the worker's converters are not for its records."""

    CONVERTERS: ClassVar[Mapping[str, str]]
    """key.converter and so on, for configurations that don't name them."""


class TransactionEnd(enum.Enum):
    """How a source ends the transaction that its records are in."""

    COMMIT = "commit"
    ABORT = "abort"


@runtime_checkable
class DefinesTransactions(Protocol):
    """What a source connector has besides if it can be used with transaction.boundary=connector."""

    def transaction_end(self) -> TransactionEnd | None:
        """Asked after each batch: whether the transaction ends behind it, None: it goes on.

        ABORT drops the transaction's records, but keeps the offsets behind them: they don't come again.
        """


@runtime_checkable
class TellsFigures(Protocol):
    """What a source connector has besides if it has figures of its own: they stand in the task's status."""

    def figures(self) -> Mapping[str, float]:
        """The figures now; asked every few seconds, between two batches. It answers within a moment."""


class SinkConnector(Protocol):
    """Writes to another system. Its group spreads the partitions over at most tasks.max tasks."""

    TABLE: ClassVar[Table]
    VERSION: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """These partitions are written by this object from now on.

        Returns the next offset of those whose place the other system keeps with the data (exactly once): the
        task goes on there. For the others the group's committed offsets hold.
        """

    def write(self, records: Sequence[SinkRecord]) -> None:
        """Write or keep a batch, in its order. Raises RetriableError, RecordError; other errors end the task.

        After a RetriableError the same batch comes again, perhaps after some of it was written.
        """

    def flush(self) -> Mapping[TopicPartition, int] | None:
        """Make durable what was written, and say how far: next offsets; None: all that `write` was given.

        Only what is durable is committed to the group.
        """

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are another task's from now on (after a `flush`, where that was possible)."""

    def close(self) -> None:
        """Give everything up."""


class Converter(Protocol):
    """Bytes of a topic to values and back. `configure` is given the converter's properties without prefix."""

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """Raises ConfigError."""

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """The value's schema (or None) and the value. Raises DataError."""

    def from_connect(self, topic: str, schema: Any, value: Any) -> bytes | None:
        """The bytes of a value. Raises DataError."""


class Transform(Protocol):
    """Changes records one by one, as `transforms` of a connector's configuration says. Used by one thread."""

    TABLE: ClassVar[Table]
    VERSION: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""

    def apply(self, record: Record) -> Record | None:
        """The changed record; None drops it. Raises DataError."""


class Predicate(Protocol):
    """Says which records a transform is for. Used by one thread."""

    TABLE: ClassVar[Table]
    VERSION: ClassVar[str]

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""

    def test(self, record: Record) -> bool:
        """Whether it holds for a record."""
