"""Where a record's file lies: directories by Confluent's partitioners, names by topic, partition, offset."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.connect.spark.files import settings as names
from ottla.connect.spark.sink import OFFSET, ORIGIN_TOPIC, PARTITION, TIMESTAMP, TOPIC, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STAGED: Final = ("__ottla_t", "__ottla_p", "__ottla_s", "__ottla_d")
"""The columns by which staged files are put into directories: topic, partition, first offset, directory.

The topic is `ROUTED/ORIGIN` where a transform has routed the records: into the directory of the one, with
file names by the other, which no two partitions share.
"""
_ROUTED: Final = "/"
_BY_PARTITION: Final = "partition"
"""In place of `partition=NUMBER`."""
OFFSET_DIGITS: Final = 10
_DAILY: Final = "'year'=yyyy/'month'=MM/'day'=dd"
_HOURLY: Final = f"{_DAILY}/'hour'=HH"


class Partitioner(enum.Enum):
    """The kinds of directories."""

    DEFAULT = "DefaultPartitioner"
    FIELD = "FieldPartitioner"
    TIME = "TimeBasedPartitioner"
    DAILY = "DailyPartitioner"
    HOURLY = "HourlyPartitioner"


class Extractor(enum.Enum):
    """The time that decides on a directory by time."""

    WALLCLOCK = "wallclock"
    RECORD = "record"
    FIELD = "recordfield"


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of a connector's files."""

    partitioner: Partitioner
    fields: tuple[str, ...]
    time_format: str
    duration_ms: int
    timezone: str
    extractor: Extractor
    time_field: str
    topics_dir: str
    flush_size: int

    @classmethod
    def of(cls, settings: Settings) -> Layout:
        """The layout that settings describe. Raises ConfigError."""
        given = settings[names.PARTITIONER]
        try:
            partitioner = Partitioner(given.rpartition(".")[2])
        except ValueError:
            known = ", ".join(each.value for each in Partitioner)
            raise ConfigError(f"{names.PARTITIONER.name}={given}: it is none of {known}") from None
        try:
            extractor = Extractor(settings[names.TIMESTAMP].lower())
        except ValueError:
            raise ConfigError(
                f"{names.TIMESTAMP.name}={settings[names.TIMESTAMP]}: it is none of Wallclock, Record, "
                "RecordField"
            ) from None
        fields = settings[names.PARTITION_FIELDS]
        if partitioner is Partitioner.FIELD and not fields:
            raise ConfigError(f"{names.PARTITION_FIELDS.name}: FieldPartitioner needs the fields")
        time_format = {Partitioner.DAILY: _DAILY, Partitioner.HOURLY: _HOURLY}.get(
            partitioner, settings[names.PATH_FORMAT].replace("Y", "y")
        )
        if partitioner is Partitioner.TIME and not time_format:
            raise ConfigError(f"{names.PATH_FORMAT.name}: TimeBasedPartitioner needs the directories")
        return cls(
            partitioner,
            fields,
            time_format,
            settings[names.PARTITION_DURATION_MS],
            settings[names.TIMEZONE],
            extractor,
            settings[names.TIMESTAMP_FIELD],
            settings[names.TOPICS_DIR].strip("/"),
            settings[names.FLUSH_SIZE],
        )

    def columns(self, frame: DataFrame, begins: dict[tuple[str, int], int]) -> list[Column]:
        """The columns STAGED of records. begins: the offset at which each partition's batch begins."""
        from pyspark.sql import functions as F

        begin = F.lit(0).cast("long")
        for (origin, partition), offset in begins.items():
            at = (F.col(ORIGIN_TOPIC) == origin) & (F.col(PARTITION) == partition)
            begin = F.when(at, F.lit(offset).cast("long")).otherwise(begin)
        size = F.lit(self.flush_size).cast("long")
        first = begin + F.floor((F.col(OFFSET) - begin) / size) * size
        routed = F.concat(_safe_directory(F.col(TOPIC)), F.lit(_ROUTED), F.col(ORIGIN_TOPIC))
        topic = F.when(F.col(TOPIC) == F.col(ORIGIN_TOPIC), F.col(TOPIC)).otherwise(routed)
        made = (topic, F.col(PARTITION), first, self._directory(frame))
        return [column.alias(name) for name, column in zip(STAGED, made, strict=True)]

    def _directory(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as F

        match self.partitioner:
            case Partitioner.DEFAULT:
                return F.lit(_BY_PARTITION)  # which `final` knows without a text for each row
            case Partitioner.FIELD:
                parts = [
                    F.concat(F.lit(f"{_safe_name(name)}="), _safe(_field(frame, name).cast("string")))
                    for name in self.fields
                ]
                return F.concat_ws("/", *parts)
        time = self._time(frame)
        if self.duration_ms > 0:
            millis = F.floor(F.unix_millis(time) / F.lit(self.duration_ms)) * F.lit(self.duration_ms)
            time = F.timestamp_millis(millis)
        return F.date_format(F.from_utc_timestamp(time, self.timezone), self.time_format)

    def _time(self, frame: DataFrame) -> Column:
        from pyspark.sql import functions as F

        match self.extractor:
            case Extractor.WALLCLOCK:
                return F.current_timestamp()
            case Extractor.RECORD:
                return F.col(TIMESTAMP)
        column = _field(frame, self.time_field)
        kind = frame.select(column.alias("f")).schema["f"].dataType.typeName()
        match kind:
            case "long" | "integer":
                time = F.timestamp_millis(column)
            case "string":
                time = F.try_to_timestamp(column)
            case "timestamp" | "timestamp_ntz" | "date":
                time = column.cast("timestamp")
            case _:
                raise ConfigError(f"{names.TIMESTAMP_FIELD.name}={self.time_field}: {kind} is no time")
        told = F.format_string(
            "the field with the time is null or no time at topic=%s, partition=%d, offset=%d",
            F.col(TOPIC),
            F.col(PARTITION),
            F.col(OFFSET),
        )
        return F.coalesce(time, F.raise_error(told))

    def final(self, staged: str, number: int) -> str:
        """The path of a staged file's place: `TOPICS/topic/directory/topic+partition+offset.extension`.

        staged: its path below the staging directory. number: of the file among those of its directory.
        """
        *parts, name = staged.split("/")
        topic, partition, first, directory = (unquote(each.partition("=")[2]) for each in parts)
        topic, _, origin = topic.partition(_ROUTED)
        if self.partitioner is Partitioner.DEFAULT and directory == _BY_PARTITION:
            directory = f"partition={partition}"
        extension = name[name.index(".") :] if "." in name else ""
        extra = f"+{number}" if number else ""
        place = f"{origin or topic}+{partition}+{int(first):0{OFFSET_DIGITS}d}"
        file = f"{place}{extra}{extension.removesuffix('.c000')}"
        file = file.replace(".c000.", ".")
        return "/".join(filter(None, (self.topics_dir, topic, directory, file)))


def _field(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    column, kind = F.col(VALUE), frame.schema[VALUE].dataType
    for part in name.split("."):
        if kind.typeName() != "struct" or part not in kind.fieldNames():  # type: ignore[attr-defined]
            raise ConfigError(f"the records have no field {name}")
        column, kind = column.getField(part), kind[part].dataType  # type: ignore[index]
    return column


def _safe(text: Column) -> Column:
    """A value in a path: nothing in it leaves its directory."""
    from pyspark.sql import functions as F

    for character, code in (("%", "%25"), ("/", "%2F"), ("\\", "%5C")):
        text = F.replace(text, F.lit(character), F.lit(code))
    return F.coalesce(F.regexp_replace(text, r"[\x00-\x1f\x7f]", "_"), F.lit("null"))


def _safe_directory(topic: Column) -> Column:
    """A topic as the name of a directory: a transform may have given it any name."""
    from pyspark.sql import functions as F

    safe = _safe(topic)
    return F.when(safe.rlike(r"^\.*$"), F.concat(F.lit("_"), safe)).otherwise(safe)


def _safe_name(name: str) -> str:
    return name.replace("/", "_")
