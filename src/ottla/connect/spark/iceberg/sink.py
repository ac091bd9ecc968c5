"""The Iceberg sink: which tables get which rows of a batch, and one commit to each.

With one table its ledger tells where the connector goes on. With several (`iceberg.tables` with routes, or
tables by a field's value) each table has a ledger of its own, and the group's offsets, which are committed
after all of them, tell where to read: what a table has already is left out of its rows. So each table gets
each row once.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.spark import settings as common
from ottla.connect.spark.iceberg import settings as names
from ottla.connect.spark.iceberg.catalog import catalog_properties, uses_s3
from ottla.connect.spark.ledger import Ledger
from ottla.connect.spark.sink import (
    OFFSET,
    ORIGIN_TOPIC,
    PARTITION,
    VALUE,
    Batch,
    Context,
    Pace,
    Target,
    has_columns,
    rows_of,
)
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from ottla.connect.spark.iceberg.table import IcebergTable

MAX_TABLES: Final = 1_000
"""The most tables that the rows of one batch may name."""
_TABLE_NAME: Final = re.compile(r"[^\s`.]+(\.[^\s`.]+)+")
_PARTITION: Final = re.compile(r"\s*(?:(\w+)\s*\(\s*([^(),]+?)\s*(?:,\s*(\d+)\s*)?\)|([^(),]+?))\s*(?:,|$)")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How one table is written."""

    name: str
    branch: str
    ids: tuple[str, ...]
    partition_by: str
    route: str | None


class IcebergSink:
    """See Sink."""

    TABLE: ClassVar[Table] = names.TABLE
    VERSION: ClassVar[str] = "1.11.0"
    LAKES: ClassVar[frozenset[Lake]] = frozenset({Lake.ICEBERG})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        given = settings.with_prefix(names.CATALOG_PREFIX)
        self.catalog, self.catalog_properties = catalog_properties(
            settings[names.CATALOG], given, settings.with_prefix(names.HADOOP_PREFIX)
        )
        self._on_s3 = uses_s3(given)
        self._by_table = settings.with_prefix(names.TABLE_PREFIX)
        tables, dynamic = settings[names.TABLES], settings[names.DYNAMIC]
        if dynamic == bool(tables):
            raise ConfigError(
                f"{names.TABLES.name}: name the tables, or set {names.DYNAMIC.name}=true"
                if not tables
                else f"{names.DYNAMIC.name}=true: with it, {names.TABLES.name} must not be set"
            )
        if dynamic and settings[names.ROUTE_FIELD] is None:
            raise ConfigError(f"{names.ROUTE_FIELD.name}: dynamic tables need the field that names them")
        for table in tables:
            if not _TABLE_NAME.fullmatch(table):
                raise ConfigError(f"{names.TABLES.name}={table}: a table is named as namespace.table")
        for each in map(self.settings_of, tables):
            if settings[names.UPSERT] and not each.ids:
                raise ConfigError(
                    f"{names.IDS.name}: {each.name} needs id columns for {names.UPSERT.name}=true"
                )
            partitioning(each.partition_by)

    def settings_of(self, table: str) -> TableSettings:
        """The settings of a table: its own, else the defaults. Raises ConfigError."""
        own, settings = self._by_table, self._settings
        ids = own.get(f"{table}.id-columns")
        return TableSettings(
            table,
            own.get(f"{table}.commit-branch") or settings[names.BRANCH],
            tuple(filter(None, (each.strip() for each in ids.split(",")))) if ids else settings[names.IDS],
            own.get(f"{table}.partition-by", settings[names.PARTITION_BY]),
            own.get(f"{table}.route-regex"),
        )

    def uses_s3(self) -> bool:
        """See Sink."""
        return self._on_s3

    def uses_keys(self) -> bool:
        """See Sink."""
        return self._settings[names.UPSERT]

    def tasks(self, most: int) -> int | None:
        """See Sink."""
        return most

    def pace(self) -> Pace:
        """See Sink."""
        interval_ms = self._settings[names.INTERVAL_MS]
        usual_ms = self._settings[common.COMMIT_INTERVAL_MS]
        return Pace(usual_ms if interval_ms is None else interval_ms, self._settings[common.MIN_RECORDS])

    def open(self, spark: SparkSession, context: Context) -> Target:
        """See Sink."""
        for key, value in self.catalog_properties.items():
            spark.conf.set(key, value)
        return IcebergTarget(spark, self, self._settings, context)


class IcebergTarget:
    """See Target."""

    def __init__(self, spark: SparkSession, sink: IcebergSink, settings: Settings, context: Context) -> None:
        self._spark = spark
        self._sink = sink
        self._settings = settings
        self._context = context
        self._known: dict[str, Ledger | None] = {}
        """The ledger that each table has after what this run knows of it."""
        self._tables: dict[str, IcebergTable] = {}
        static = settings[names.TABLES]
        self._only = static[0] if len(static) == 1 else None
        self._compacted: dict[str, float] = {}
        for name in static:
            self._find(spark, name)

    def ledger(self) -> Ledger | None:
        """See Target."""
        return None if self._only is None else self._known.get(self._only)

    def claim(self, ledger: Ledger) -> None:
        """See Target."""
        assert self._only is not None
        self._tables[self._only].claim(ledger, self._known[self._only])
        self._known[self._only] = ledger

    def wish(self, spark: SparkSession) -> StructType | None:
        """See Target."""
        table = None if self._only is None else self._find(spark, self._only)
        return None if table is None else table.columns()

    def write(self, batch: Batch) -> None:
        """See Target."""
        spark = batch.frame.sparkSession
        for name, frame in self._routed(batch.frame):
            table = self._find(spark, name)
            ledger = self._ledger_of(name, batch)
            if ledger is None:
                continue
            known = self._known.get(name)
            if self._only is None and known is not None and known.generation == ledger.generation:
                frame = frame.where(_not_in(known))
            settings = self._sink.settings_of(name)
            if table is None and not has_columns(frame):
                continue
            if table is None:
                self._create(name, frame, settings)
                table = self._find(spark, name)
                assert table is not None
            self._commit(table, frame, settings, ledger)
            self._known[name] = ledger
            self._maintain(spark, name)

    def _ledger_of(self, name: str, batch: Batch) -> Ledger | None:
        """The table's ledger once the batch is in it; None if it is."""
        known = self._known.get(name)
        if self._only is not None:
            return batch.ledger
        ends = {topic: dict(batch.ledger.ends[topic]) for topic in batch.begins}
        if known is None or known.generation < batch.ledger.generation:
            return Ledger(batch.ledger.generation, 1 if known is None else known.sequence + 1, ends)
        return None if known.has(ends) else known.after(ends)

    def _routed(self, frame: DataFrame) -> Sequence[tuple[str, DataFrame]]:
        """The tables that get rows, and which."""
        from pyspark.sql import functions as F

        field, tables = self._settings[names.ROUTE_FIELD], self._settings[names.TABLES]
        if field is None:
            return [(name, frame) for name in tables]
        kind = frame.schema[VALUE].dataType
        if kind.typeName() != "struct" or field not in kind.fieldNames():  # type: ignore[attr-defined]
            return []
        route = F.col(VALUE).getField(field).cast("string")
        if self._settings[names.DYNAMIC]:
            lower = F.lower(route)
            found = frame.select(lower.alias("t")).where("t IS NOT NULL").distinct().limit(MAX_TABLES + 1)
            named = sorted(row.t for row in found.collect())
            if len(named) > MAX_TABLES:
                raise ConfigError(f"a batch names more than {MAX_TABLES} tables")
            for name in named:
                if not _TABLE_NAME.fullmatch(name):
                    raise ConfigError(f"{field}={name} in a record: a table is named as namespace.table")
            return [(name, frame.where(lower == name)) for name in named]
        routed = []
        for name in tables:
            expression = self._sink.settings_of(name).route
            if expression is not None:
                routed.append((name, frame.where(route.rlike(f"^(?:{expression})$"))))
        return routed

    def _find(self, spark: SparkSession, name: str) -> IcebergTable | None:
        """The table, for the session of this batch; None if there is none."""
        from ottla.connect.spark.iceberg.table import IcebergTable

        table = self._tables.get(name)
        if table is not None:
            return table.with_session(spark)
        identifier = self._identifier(name)
        if not spark.catalog.tableExists(identifier):
            self._known.setdefault(name, None)
            return None
        settings = self._sink.settings_of(name)
        table = IcebergTable(spark, identifier, self._context.owner, self._context.run, settings.branch)
        table.remove_old_stages()
        if self._known.get(name) is None:
            self._known[name] = table.ledger()
        self._tables[name] = table
        return table

    def _identifier(self, name: str) -> str:
        return ".".join(f"`{part}`" for part in (self._sink.catalog, *name.split(".")))

    def _create(self, name: str, frame: DataFrame, settings: TableSettings) -> None:
        """Make a table with the columns of some rows. Raises ConfigError where that is not wanted."""
        if not self._settings[names.CREATE]:
            raise ConfigError(f"table {name} does not exist: create it, or set {names.CREATE.name}=true")
        from pyspark.sql import functions as F

        spark = frame.sparkSession
        parts = name.split(".")[:-1]
        for depth in range(1, len(parts) + 1):
            namespace = ".".join(f"`{part}`" for part in (self._sink.catalog, *parts[:depth]))
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        columns = rows_of(frame)
        if self._settings[names.UPSERT]:
            from ottla.connect.spark.upserts import DELETED, last_rows

            columns = last_rows(frame, settings.ids).drop(DELETED)
        writer = columns.where(F.lit(False)).writeTo(self._identifier(name)).using("iceberg")
        for key, value in {"format-version": "2", **self._settings.with_prefix(names.CREATE_PREFIX)}.items():
            writer = writer.tableProperty(key, value)
        by = partitioning(settings.partition_by)
        if by:
            writer = writer.partitionedBy(*(_partition_column(each) for each in by))
        try:
            writer.create()
        except Exception:
            if not spark.catalog.tableExists(self._identifier(name)):
                raise
        _log.info("table %s is created", name)

    def _commit(self, table: IcebergTable, frame: DataFrame, settings: TableSettings, ledger: Ledger) -> None:
        from ottla.connect.spark.iceberg.table import LEDGER
        from ottla.connect.spark.upserts import DELETED, last_rows, merge_text

        upsert = self._settings[names.UPSERT]
        text = ledger.text(self._context.owner)
        rows = last_rows(frame, settings.ids) if upsert else rows_of(frame.where(_column(VALUE).isNotNull()))
        conformed = self._conformed(table, rows)
        expected = self._known.get(settings.name)
        write_properties = self._settings.with_prefix(names.WRITE_PREFIX)

        def append(identifier: str) -> None:
            writer = conformed.writeTo(identifier).option(f"snapshot-property.{LEDGER}", text)
            writer.options(**write_properties).append()

        def merge(identifier: str) -> None:
            spark = conformed.sparkSession
            view = f"ottla_{self._context.owner.slug.replace('-', '_')}"
            # Iceberg reads the rows twice, and refuses what may differ then: expressions that raise errors
            stored = conformed.localCheckpoint()
            stored.createOrReplaceTempView(view)
            name = f"spark.sql.iceberg.snapshot-property.{LEDGER}"
            spark.conf.set(name, text)
            try:
                columns = [each for each in conformed.columns if each != DELETED]
                spark.sql(merge_text(identifier, view, columns, settings.ids))
            finally:
                spark.conf.unset(name)
                spark.catalog.dropTempView(view)
                rows: Any = stored._jdf.queryExecution().logical()
                rows.rdd().unpersist(False)

        table.commit(merge if upsert else append, ledger, expected)

    def _conformed(self, table: IcebergTable, rows: DataFrame) -> DataFrame:
        """Rows with the table's columns, which are changed first where they lack some."""
        from ottla.connect.spark.columns import missing, table_columns
        from ottla.connect.spark.upserts import DELETED

        kind = rows.drop(DELETED).schema
        if self._settings[names.EVOLVE]:
            for change in missing(table.columns(), kind):
                _log.info("ALTER TABLE %s %s", table.identifier, change.clause)
                rows.sparkSession.sql(f"ALTER TABLE {table.identifier} {change.clause}")
        columns = table_columns(kind, table.columns())
        if DELETED in rows.columns:
            columns.append(_column(DELETED))
        return rows.select(*columns)

    def _maintain(self, spark: SparkSession, name: str) -> None:
        """Compact the table if it is time to. A failure is logged: the rows are there."""
        interval_ms = self._settings[names.COMPACTION_MS]
        last = self._compacted.setdefault(name, time.monotonic())
        if not interval_ms or (time.monotonic() - last) * 1_000 < interval_ms:
            return
        self._compacted[name] = time.monotonic()
        call = f"CALL `{self._sink.catalog}`.system"
        try:
            spark.sql(f"{call}.rewrite_data_files(table => '{name}')")
            spark.sql(f"{call}.rewrite_manifests(table => '{name}')")
            expire_ms = self._settings[names.EXPIRE_MS]
            if expire_ms:
                before = datetime.now(UTC) - timedelta(milliseconds=expire_ms)
                spark.sql(
                    f"{call}.expire_snapshots(table => '{name}', older_than => "
                    f"TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}', retain_last => "
                    f"{self._settings[names.RETAIN]})"
                )
        except Exception as problem:
            _log.warning("table %s is not compacted: %s", name, str(problem).splitlines()[0])


def partitioning(text: str) -> list[tuple[str, str, int | None]]:
    """`day(at), bucket(id, 16), region` as (transform, column, number). Raises ConfigError."""
    found: list[tuple[str, str, int | None]] = []
    at = 0
    while at < len(text.rstrip()):
        match = _PARTITION.match(text, at)
        if match is None:
            raise ConfigError(f"{names.PARTITION_BY.name}={text}: no partitioning from {text[at:]!r} on")
        transform = (match[1] or "identity").lower().removesuffix("s")
        number = None if match[3] is None else int(match[3])
        if transform not in _TRANSFORMS or (number is None) == (transform in ("bucket", "truncate")):
            raise ConfigError(f"{names.PARTITION_BY.name}={text}: no partitioning: {match[0].strip(', ')}")
        found.append((transform, match[2] or match[4], number))
        at = match.end()
    return found


_TRANSFORMS: Final = ("identity", "year", "month", "day", "hour", "bucket", "truncate")


def _partition_column(by: tuple[str, str, int | None]) -> Column:
    from pyspark.sql import functions as F

    from ottla.connect.spark.columns import quoted

    transform, name, number = by
    column = F.col(quoted(*name.split(".")))
    match transform:
        case "year":
            return F.partitioning.years(column)
        case "month":
            return F.partitioning.months(column)
        case "day":
            return F.partitioning.days(column)
        case "hour":
            return F.partitioning.hours(column)
        case "bucket":
            return F.partitioning.bucket(number or 1, column)
        case "truncate":
            return F.call_function("truncate", F.lit(number), column)
    return column


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)


def _not_in(ledger: Ledger) -> Column:
    """The records that a table does not have yet."""
    from pyspark.sql import functions as F

    found = F.lit(False)
    for topic, partitions in ledger.ends.items():
        for partition, end in partitions.items():
            place = (F.col(ORIGIN_TOPIC) == topic) & (F.col(PARTITION) == partition)
            found = found | (place & (F.col(OFFSET) < end))
    return ~found
