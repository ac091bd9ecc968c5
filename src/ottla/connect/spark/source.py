"""A source of any format of Spark that can be read as a stream: directories of files, `rate`, a jar's own.

Each row is a record: its value is the row as a struct, or the one column that the rows have, or the one that
`spark.value.column` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Importance, Table, by_name, long, string, text_or_none
from ottla.config.settings import Settings
from ottla.config.validators import at_least
from ottla.connect.host.messages import Start
from ottla.connect.spark.java import class_of
from ottla.connect.spark.source_query import SourceQuery
from ottla.pipeline.formats.python_types import spark_type
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OPTION_PREFIX: Final = "spark.option."
FORMAT: Final = text_or_none(
    "spark.format",
    None,
    "The data source: parquet, csv, json, text, orc, rate, a class of a jar in ottla.spark.jars.",
    importance=Importance.HIGH,
)
PATH: Final = text_or_none("spark.path", None, "What is read: the directory of files, where it has one.")
TOPIC: Final = string.optional("topic", "The topic of the records.", importance=Importance.HIGH)
CHECKPOINT: Final = text_or_none(
    "spark.checkpoint.location",
    None,
    "The directory, of a file system that every worker sees, in which Spark keeps how far it has read.",
    importance=Importance.HIGH,
)
SCHEMA: Final = text_or_none(
    "spark.schema",
    None,
    "The columns, as Spark's DDL: `id BIGINT, name STRING`. Files of all formats but text need them.",
)
KEY_COLUMN: Final = text_or_none("spark.key.column", None, "The column that is the records' key.")
VALUE_COLUMN: Final = text_or_none(
    "spark.value.column", None, "The column that is the records' value; all together, if not given."
)
INTERVAL_MS: Final = long("spark.interval.ms", 1_000, "How often is looked for new rows.", at_least(0))
_TABLE: Final = Table(
    "the source of any Spark format", by_name(globals().values()), prefixes=(OPTION_PREFIX,)
)
_S3: Final = ("s3:", "s3a:", "s3n:")


class FormatSource:
    """The connector's class, named in the catalog. Made without Spark, so that its settings can be tried."""

    TABLE: ClassVar[Table] = _TABLE
    VERSION: ClassVar[str] = "1.0.0"
    LAKES: ClassVar[frozenset[Lake]] = frozenset()

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._options = settings.with_prefix(OPTION_PREFIX)
        required = ((FORMAT, "the data source"), (TOPIC, "the topic"), (CHECKPOINT, "the directory"))
        for setting, what in required:
            if not settings[setting]:
                raise ConfigError(f"{setting.name}: {what} is missing. {setting.doc}")
        self.format: str = settings[FORMAT] or ""
        self.topic: str = settings[TOPIC] or ""
        self.checkpoint: str = (settings[CHECKPOINT] or "").rstrip("/")
        self.interval_ms: int = settings[INTERVAL_MS]
        if settings[SCHEMA]:
            spark_type(settings[SCHEMA])

    def uses_s3(self) -> bool:
        """Whether something of it lies on S3."""
        texts = (*self._options.values(), self._settings[PATH] or "", self.checkpoint)
        return any(text.startswith(_S3) for text in texts)

    def query(self, order: Start) -> SourceQuery:
        """The run of task 0. Raises ConfigError."""
        return SourceQuery(order, self)

    def read(self, spark: SparkSession) -> DataFrame:
        """The rows as a stream. Raises ConfigError for a format that can't be read so."""
        reader = spark.readStream.format(self.format).options(**self._options)
        if self._settings[SCHEMA]:
            reader = reader.schema(self._settings[SCHEMA] or "")
        try:
            frame = reader.load(self._settings[PATH])
        except Exception as problem:
            first = str(problem).strip().splitlines()[0]
            if "schema" in first.lower():
                first += f" ({SCHEMA.name} gives it)"
            raise ConfigError(
                f"{FORMAT.name}={self.format} can't be read as a stream ({class_of(problem)}): {first}"
            ) from problem
        for setting in (KEY_COLUMN, VALUE_COLUMN):
            name = self._settings[setting]
            if name and name not in frame.columns:
                raise ConfigError(f"{setting.name}={name}: the columns are {', '.join(frame.columns)}")
        return frame

    def key(self) -> Column | None:
        """The records' key, None for none."""
        return None if not self._settings[KEY_COLUMN] else _column(self._settings[KEY_COLUMN] or "")

    def value(self, frame: DataFrame) -> Column:
        """The records' value."""
        from pyspark.sql import functions as F

        name = self._settings[VALUE_COLUMN] or (frame.columns[0] if len(frame.columns) == 1 else None)
        return _column(name) if name else F.struct(*(_column(each) for each in frame.columns))


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    from ottla.connect.spark.columns import quoted

    return F.col(quoted(name))
