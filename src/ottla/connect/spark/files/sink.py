"""The file sink: rows as files of a directory on any file system of Hadoop, exactly once by manifests.

A batch makes one file for each partition of a topic and each directory, or several with `flush.size`
offsets each. Records wait for a batch until `flush.size` of them are there, or `rotate.interval.ms` (else
ottla.commit.interval.ms) is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.spark import settings as common
from ottla.connect.spark.files import settings as names
from ottla.connect.spark.files.layout import STAGED, Layout
from ottla.connect.spark.files.manifest import Manifest, Manifests, Move, Place
from ottla.connect.spark.ledger import Fenced, Ledger
from ottla.connect.spark.sink import OFFSET, PARTITION, TOPIC, VALUE, Batch, Context, Pace, Target, struct_of
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FORMATS: Final = {
    "parquet": "parquet",
    "json": "json",
    "csv": "csv",
    "orc": "orc",
    "parquetformat": "parquet",
    "jsonformat": "json",
    "orcformat": "orc",
}
_S3: Final = ("s3:", "s3a:", "s3n:")


class FileSink:
    """See Sink."""

    TABLE: ClassVar[Table] = names.TABLE
    VERSION: ClassVar[str] = "1.0.0"
    LAKES: ClassVar[frozenset[Lake]] = frozenset()

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.layout = Layout.of(settings)
        given = settings[names.FORMAT]
        found = _FORMATS.get(given.rpartition(".")[2].lower())
        if found is None:
            raise ConfigError(f"{names.FORMAT.name}={given}: the formats here are parquet, json, csv and orc")
        self.format = found
        self.url = self._url()
        self.hadoop = dict(settings.with_prefix(names.HADOOP_PREFIX))
        if self.url.startswith("s3a:") and settings[names.STORE_URL]:
            self.hadoop.setdefault("fs.s3a.endpoint", settings[names.STORE_URL] or "")
            self.hadoop.setdefault("fs.s3a.path.style.access", "true")

    def _url(self) -> str:
        settings = self._settings
        if settings[names.URL]:
            return settings[names.URL] or ""
        if settings[names.BUCKET]:
            return f"s3a://{settings[names.BUCKET]}"
        found = settings[names.HDFS_URL] or settings[names.STORE_URL]
        if not found:
            raise ConfigError(f"{names.URL.name}: the directory of the files is missing")
        return found

    def uses_s3(self) -> bool:
        """See Sink."""
        return self.url.startswith(_S3)

    def uses_keys(self) -> bool:
        """See Sink."""
        return False

    def tasks(self, most: int) -> int | None:
        """See Sink: a partition's records of a batch go into one file, so a task has a whole partition."""
        return None

    def pace(self) -> Pace:
        """See Sink."""
        settings = self._settings
        given = [settings[each] for each in (names.ROTATE_MS, names.ROTATE_SCHEDULE_MS)]
        waits = [each for each in given if each is not None]
        return Pace(min(waits, default=settings[common.COMMIT_INTERVAL_MS]), settings[names.FLUSH_SIZE])

    def codec(self) -> str | None:
        """The compression of files, None for the format's own."""
        settings = self._settings
        by_format = {"parquet": names.PARQUET_CODEC, "json": names.S3_COMPRESSION}.get(self.format)
        return settings[names.COMPRESSION] or (None if by_format is None else settings[by_format])

    def open(self, spark: SparkSession, context: Context) -> Target:
        """See Sink."""
        for key, value in self.hadoop.items():
            spark.conf.set(f"spark.hadoop.{key}", value)
            spark._jsparkSession.sparkContext().hadoopConfiguration().set(key, value)
        from ottla.connect.spark.files.places import place_of

        return FileTarget(self, self._settings, context, place_of(spark, self.url))


class FileTarget:
    """See Target."""

    def __init__(self, sink: FileSink, settings: Settings, context: Context, place: Place) -> None:
        self._sink = sink
        self._settings = settings
        self._context = context
        self._place = place
        self._manifests = Manifests(place, context.owner, settings[names.MANIFESTS])
        self._known = self._manifests.recover()

    def ledger(self) -> Ledger | None:
        """See Target."""
        return self._known

    def claim(self, ledger: Ledger) -> None:
        """See Target."""
        staging = self._manifests.staging(self._context.run, ledger.sequence)
        self._manifests.commit(Manifest(ledger, staging, []))
        self._known = ledger

    def wish(self, spark: SparkSession) -> StructType | None:
        """See Target."""
        return None

    def write(self, batch: Batch) -> None:
        """See Target."""
        newest = self._manifests.newest()
        if newest is not None and newest.ledger == batch.ledger:
            self._manifests.finish(newest)
            return
        if (None if newest is None else newest.ledger) != self._known:
            raise Fenced(f"another run of {self._context.owner.connector} has written files; this one ends")
        staging = self._manifests.staging(self._context.run, batch.ledger.sequence)
        self._place.remove(staging)
        self._stage(batch, staging)
        self._manifests.commit(Manifest(batch.ledger, staging, self._moves(staging)))
        self._known = batch.ledger

    def _stage(self, batch: Batch, staging: str) -> None:
        from pyspark.sql import functions as F

        frame = self._with_values(batch.frame)
        kind = struct_of(frame.schema[VALUE].dataType)
        if not kind.fields:
            return
        begins = {
            (topic, partition): offset
            for topic, partitions in batch.begins.items()
            for partition, offset in partitions.items()
        }
        is_struct = frame.schema[VALUE].dataType.typeName() == "struct"
        rows = [
            (F.col(VALUE).getField(each.name) if is_struct else F.col(VALUE)).alias(each.name)
            for each in kind.fields
        ]
        writer = frame.select(*rows, *self._sink.layout.columns(frame, begins)).write
        codec = self._sink.codec()
        if codec is not None:
            writer = writer.option("compression", codec)
        if self._sink.format == "csv":
            writer = writer.option("header", "true")
        writer = writer.option("maxRecordsPerFile", 0)
        writer.partitionBy(*STAGED).format(self._sink.format).save(f"{self._sink.url.rstrip('/')}/{staging}")

    def _with_values(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        value = F.col(VALUE)
        if self._settings[names.NULL_VALUES] is names.NullValues.IGNORE:
            return frame.where(value.isNotNull())
        told = F.format_string(
            f"a record without a value, and {names.NULL_VALUES.name}=fail: topic=%s, partition=%d, offset=%d",
            *(F.col(name) for name in (TOPIC, PARTITION, OFFSET)),
        )
        return frame.withColumn(VALUE, F.coalesce(value, F.raise_error(told)))

    def _moves(self, staging: str) -> list[Move]:
        """The staged files and their places."""
        found: list[Move] = []

        def look(directory: str, depth: int) -> None:
            number = 0
            for name in self._place.names(f"{staging}/{directory}" if directory else staging):
                path = f"{directory}/{name}" if directory else name
                if name.startswith((".", "_SUCCESS", "_temporary")):
                    continue
                if depth < len(STAGED):
                    look(path, depth + 1)
                else:
                    found.append(Move(f"{staging}/{path}", self._sink.layout.final(path, number)))
                    number += 1

        look("", 0)
        return found
