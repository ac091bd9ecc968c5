"""A sink to any data source of Spark, by configuration: `spark.format` and `spark.option.*`.

The target keeps no ledger, so rows are there at least once: after a batch is written, the group's offsets
are committed, and a kill between the two repeats the batch. `spark.place.columns` adds each record's place,
by which a reader or the target can tell rows that came twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Importance, Table, boolean, by_name, string, text_or_none
from ottla.config.settings import Settings
from ottla.connect.spark import settings as common
from ottla.connect.spark.ledger import Ledger
from ottla.connect.spark.settings import COMMON
from ottla.connect.spark.sink import (
    OFFSET,
    ORIGIN_TOPIC,
    PARTITION,
    TIMESTAMP,
    VALUE,
    Batch,
    Context,
    Pace,
    Target,
    rows_of,
)
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

OPTION_PREFIX: Final = "spark.option."
FORMAT: Final = text_or_none(
    "spark.format",
    None,
    "The data source: jdbc, text, avro, a class of a jar in ottla.spark.jars.",
    importance=Importance.HIGH,
)
MODE: Final = string("spark.mode", "append", "What a batch does with what is there: append or overwrite.")
PLACE: Final = boolean(
    "spark.place.columns",
    False,
    "Whether rows get the columns kafka_topic, kafka_partition, kafka_offset and kafka_timestamp.",
)
_TABLE: Final = Table(
    "the sink of any Spark format", {**COMMON, **by_name(globals().values())}, prefixes=(OPTION_PREFIX,)
)


class FormatSink:
    """See Sink."""

    TABLE: ClassVar[Table] = _TABLE
    VERSION: ClassVar[str] = "1.0.0"
    LAKES: ClassVar[frozenset[Lake]] = frozenset()

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.options = settings.with_prefix(OPTION_PREFIX)
        if not settings[FORMAT]:
            raise ConfigError(f"{FORMAT.name}: the data source is missing")
        if settings[MODE] not in ("append", "overwrite"):
            raise ConfigError(f"{MODE.name}={settings[MODE]}: it is neither append nor overwrite")

    def uses_s3(self) -> bool:
        """See Sink."""
        return any(value.startswith(("s3:", "s3a:", "s3n:")) for value in self.options.values())

    def uses_keys(self) -> bool:
        """See Sink."""
        return False

    def tasks(self, most: int) -> int | None:
        """See Sink."""
        return most

    def pace(self) -> Pace:
        """See Sink."""
        return Pace(self._settings[common.COMMIT_INTERVAL_MS], self._settings[common.MIN_RECORDS])

    def open(self, spark: SparkSession, context: Context) -> Target:
        """See Sink."""
        return FormatTarget(
            self._settings[FORMAT] or "", self._settings[MODE], self.options, self._settings[PLACE]
        )


class FormatTarget:
    """See Target."""

    def __init__(self, source: str, mode: str, options: dict[str, str], has_place: bool) -> None:
        self._source = source
        self._mode = mode
        self._options = options
        self._has_place = has_place

    def ledger(self) -> Ledger | None:
        """See Target: there is none."""
        return None

    def claim(self, ledger: Ledger) -> None:
        """See Target."""

    def wish(self, spark: SparkSession) -> StructType | None:
        """See Target."""
        return None

    def write(self, batch: Batch) -> None:
        """See Target: at least once."""
        from pyspark.sql import functions as F

        frame = batch.frame.where(F.col(VALUE).isNotNull())
        names = {"kafka_topic": ORIGIN_TOPIC, "kafka_partition": PARTITION, "kafka_offset": OFFSET}
        rows = rows_of(frame)
        if self._has_place:
            kind = frame.schema[VALUE].dataType
            value = "value.*" if kind.typeName() == "struct" else VALUE
            places = [F.col(old).alias(new) for new, old in {**names, "kafka_timestamp": TIMESTAMP}.items()]
            rows = frame.select(value, *places)
        if not rows.columns:
            return
        rows.write.format(self._source).options(**self._options).mode(self._mode).save()
