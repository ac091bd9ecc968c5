"""The contract between a sink's query and its target: a table, a directory, any Spark format.

The query reads a batch, converts its values and gives it to the target with the ledger that must stand there
once the batch is written. A target that keeps no ledger leaves that to the group's offsets (at least once).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.spark.ledger import Ledger, Owner
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP = "key", "value", "topic", "partition", "offset", "timestamp"
ORIGIN_TOPIC = "origin_topic"
"""The topic that a record was read from, which is not TOPIC where a transform routes it."""


@dataclass(frozen=True, slots=True)
class Context:
    """Whose run it is. run: a name that no other run of the connector has."""

    owner: Owner
    generation: int
    run: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Records to write.

    frame: the columns KEY and VALUE (converted), TOPIC (as transforms made it), ORIGIN_TOPIC, PARTITION,
    OFFSET, TIMESTAMP. begins: the offsets at which the batch begins, by ORIGIN_TOPIC. ledger: to stand in the
    target afterwards.
    """

    frame: DataFrame
    begins: Mapping[str, Mapping[int, int]]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Pace:
    """When a batch begins: after interval_ms at the latest, or with min_records waiting."""

    interval_ms: int
    min_records: int


class Sink(Protocol):
    """A sink's class, named in the catalog. Made without Spark, so that its settings can be tried."""

    TABLE: ClassVar[Table]
    VERSION: ClassVar[str]
    LAKES: ClassVar[frozenset[Lake]]

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""

    def uses_s3(self) -> bool:
        """Whether the target lies on S3."""

    def uses_keys(self) -> bool:
        """Whether the target needs the records' keys, converted."""

    def tasks(self, most: int) -> int | None:
        """How many tasks read a batch at least, of tasks.max; None: one for each partition of the topics."""

    def pace(self) -> Pace:
        """When batches begin."""

    def open(self, spark: SparkSession, context: Context) -> Target:
        """Look at the target. Raises UserError."""


class Target(Protocol):
    """An opened target, used by one thread at a time."""

    def ledger(self) -> Ledger | None:
        """The ledger in the target, None if it has none yet or keeps none for the whole connector."""

    def claim(self, ledger: Ledger) -> None:
        """Write a ledger without records, by which older runs are refused. Raises Fenced."""

    def wish(self, spark: SparkSession) -> StructType | None:
        """The type that values should have, None if any will do."""

    def write(self, batch: Batch) -> None:
        """Write a batch and its ledger, both or none. One that is there already is left alone. Raises
        Fenced.
        """


def struct_of(value: DataType) -> StructType:
    """A value's type as columns: a struct's own fields, anything else as the one column `value`."""
    from pyspark.sql.types import StructField, StructType

    return value if isinstance(value, StructType) else StructType([StructField(VALUE, value)])


def has_columns(frame: DataFrame) -> bool:
    """Whether a batch says what columns a new table has: JSON without a schema and without values does not.

    The first batch of a topic that is still empty has no records.
    """
    return bool(struct_of(frame.schema[VALUE].dataType).fields)


def rows_of(frame: DataFrame) -> DataFrame:
    """A batch's values as columns, without the places of the records."""
    from pyspark.sql import functions as F

    kind = frame.schema[VALUE].dataType
    names = struct_of(kind).fieldNames()
    if kind.typeName() != "struct":
        return frame.select(F.col(VALUE))
    return frame.select(*(F.col(VALUE).getField(name).alias(name) for name in names))
