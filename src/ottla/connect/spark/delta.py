"""The Delta sink: append and upsert into a Delta table, with the ledger in its commits.

Each commit has the ledger as `userMetadata`, and the transaction `ottla/CONNECTOR-…` with the ledger's
sequence as its version, in one entry of Delta's log. Of two runs that write at once, the second finds the
version taken: Delta refuses it, or leaves it out as done already, and then the ledger that stands there is
not its own. The sequence goes on over all generations of offsets, and a new generation begins with a commit
of its own, so an older run can't write after it.

The transaction stays in the table for good. The ledger's offsets stand in the commit's entry of the log,
which Delta removes after delta.logRetentionDuration (30 days) if there were commits since: a connector that
had no records for so long, in a table that others write, ends with an error, and its offsets are given by
PATCH.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import Importance, Table, boolean, by_name, string_list, text_or_none
from ottla.config.settings import Settings
from ottla.connect.spark import settings as common
from ottla.connect.spark.ledger import Fenced, Ledger, LedgerError, read_ledger
from ottla.connect.spark.settings import COMMON
from ottla.connect.spark.sink import VALUE, Batch, Context, Pace, Target, has_columns, rows_of
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PROPERTIES_PREFIX: Final = "delta.table-props."
PATH: Final = text_or_none(
    "delta.path", None, "The table's directory, on any file system of Hadoop.", importance=Importance.HIGH
)
PARTITION_BY: Final = string_list(
    "delta.partition-by", (), "The columns by which a new table is partitioned."
)
UPSERT: Final = boolean(
    "delta.upsert-mode-enabled",
    False,
    "Whether a row replaces the one with its id, and a record without a value deletes it.",
)
IDS: Final = string_list("delta.id-columns", (), "The columns that identify a row, for upserts.")
EVOLVE: Final = boolean("delta.evolve-schema-enabled", False, "Whether new fields become columns.")
SINGLE: Final = boolean(
    "delta.s3.single-writer",
    False,
    "Says that no other process ever writes the table: without it, a table on S3 is refused.",
)
_TABLE: Final = Table(
    "the Delta sink", {**COMMON, **by_name(globals().values())}, prefixes=(PROPERTIES_PREFIX,)
)
_S3: Final = ("s3:", "s3a:", "s3n:")
_FIRST_LOOK: Final = 1
_TXN: Final = "spark.databricks.delta.write"
_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"

_log = logging.getLogger(__name__)


class DeltaSink:
    """See Sink."""

    TABLE: ClassVar[Table] = _TABLE
    VERSION: ClassVar[str] = "4.1.0"
    LAKES: ClassVar[frozenset[Lake]] = frozenset({Lake.DELTA})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        path = settings[PATH]
        if not path:
            raise ConfigError(f"{PATH.name}: the table's directory is missing")
        self.path = path
        if settings[UPSERT] and not settings[IDS]:
            raise ConfigError(f"{IDS.name}: {UPSERT.name}=true needs the columns that identify a row")
        if self.uses_s3() and not settings[SINGLE]:
            raise ConfigError(
                f"{PATH.name}={path}: Delta's commits on S3 are safe from one process only, and a "
                "worker that was "
                f"frozen could overwrite a commit. Use Iceberg with a REST or JDBC catalog; or say with "
                f"{SINGLE.name}=true that there is one worker, and that nothing else writes the table"
            )

    def uses_s3(self) -> bool:
        """See Sink."""
        return self.path.startswith(_S3)

    def uses_keys(self) -> bool:
        """See Sink."""
        return self._settings[UPSERT]

    def tasks(self, most: int) -> int | None:
        """See Sink."""
        return most

    def pace(self) -> Pace:
        """See Sink."""
        return Pace(self._settings[common.COMMIT_INTERVAL_MS], self._settings[common.MIN_RECORDS])

    def open(self, spark: SparkSession, context: Context) -> Target:
        """See Sink."""
        return DeltaTarget(spark, self, self._settings, context)


class DeltaTarget:
    """See Target."""

    def __init__(self, spark: SparkSession, sink: DeltaSink, settings: Settings, context: Context) -> None:
        self._path = sink.path
        self._settings = settings
        self._context = context
        self._application = f"ottla/{context.owner.slug}"
        self._name = f"delta.`{sink.path.replace('`', '``')}`"
        self._known = self._newest(spark)
        self._opened_with = spark

    def ledger(self) -> Ledger | None:
        """See Target."""
        return self._known

    def claim(self, ledger: Ledger) -> None:
        """See Target."""
        nothing = self._opened_with.read.format("delta").load(self._path).limit(0)
        self._commit(nothing, ledger, upsert=False)

    def wish(self, spark: SparkSession) -> StructType | None:
        """See Target."""
        return self._columns(spark) if self._exists(spark) else None

    def write(self, batch: Batch) -> None:
        """See Target."""
        from pyspark.sql import functions as F

        from ottla.connect.spark.upserts import DELETED, last_rows

        spark, upsert = batch.frame.sparkSession, self._settings[UPSERT]
        exists = self._exists(spark)
        if not exists and not has_columns(batch.frame):
            return
        ids: tuple[str, ...] = self._settings[IDS]
        if upsert:
            rows = last_rows(batch.frame, ids)
        else:
            rows = rows_of(batch.frame.where(F.col(VALUE).isNotNull()))
        if not exists:
            self._create(rows.drop(DELETED))
        self._commit(self._conformed(rows), batch.ledger, upsert=upsert)

    def _newest(self, spark: SparkSession) -> Ledger | None:
        """The ledger of the connector's newest commit. Raises LedgerError."""
        if not self._exists(spark):
            return None
        look, looked = _FIRST_LOOK, 0
        while True:
            history = (
                spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT {look}").select("userMetadata").collect()
            )
            for row in history[looked:]:
                if row.userMetadata and '"connector"' in row.userMetadata:
                    try:
                        found = read_ledger(row.userMetadata, self._context.owner)
                    except LedgerError:
                        continue  # somebody else's words about a connector
                    if found is not None:
                        return found
            if len(history) < look:
                return None
            look, looked = look * 10, len(history)

    def _exists(self, spark: SparkSession) -> bool:
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        return bool(jvm.io.delta.tables.DeltaTable.isDeltaTable(spark._jsparkSession, self._path))

    def _columns(self, spark: SparkSession) -> StructType:
        return spark.read.format("delta").load(self._path).schema

    def _create(self, rows: DataFrame) -> None:
        writer = rows.limit(0).write.format("delta").mode("ignore")
        writer = writer.options(**self._settings.with_prefix(PROPERTIES_PREFIX))
        by: tuple[str, ...] = self._settings[PARTITION_BY]
        if by:
            writer = writer.partitionBy(list(by))
        writer.save(self._path)
        _log.info("table %s is created", self._path)

    def _conformed(self, rows: DataFrame) -> DataFrame:
        """Rows with the table's columns, to which new ones are added first."""
        from pyspark.sql import functions as F

        from ottla.connect.spark.columns import missing, table_columns
        from ottla.connect.spark.upserts import DELETED

        spark, kind = rows.sparkSession, rows.drop(DELETED).schema
        table = self._columns(spark)
        changes = list(missing(table, kind)) if self._settings[EVOLVE] else []
        for change in changes:
            _log.info("ALTER TABLE %s %s", self._name, change.clause)
            spark.sql(f"ALTER TABLE {self._name} {change.clause}")
        columns = table_columns(kind, self._columns(spark) if changes else table)
        if DELETED in rows.columns:
            columns.append(F.col(DELETED))
        return rows.select(*columns)

    def _commit(self, rows: DataFrame, ledger: Ledger, *, upsert: bool) -> None:
        from ottla.connect.spark.upserts import DELETED, merge_text

        spark, text = rows.sparkSession, ledger.text(self._context.owner)
        if upsert:
            view = f"ottla_{self._context.owner.slug.replace('-', '_')}"
            rows.createOrReplaceTempView(view)
            conf = {
                f"{_TXN}.txnAppId": self._application,
                f"{_TXN}.txnVersion": str(ledger.sequence),
                _METADATA: text,
            }
            for key, value in conf.items():
                spark.conf.set(key, value)
            ids: tuple[str, ...] = self._settings[IDS]
            try:
                columns = [each for each in rows.columns if each != DELETED]
                spark.sql(merge_text(self._name, view, columns, ids))
            finally:
                for key in conf:
                    spark.conf.unset(key)
                spark.catalog.dropTempView(view)
        else:
            writer = rows.write.format("delta").mode("append").option("txnAppId", self._application)
            writer.option("txnVersion", ledger.sequence).option("userMetadata", text).save(self._path)
        # a version that is taken is left out silently: by this batch, which is repeated, or by another run
        found = self._newest(spark)
        if found != ledger:
            raise Fenced(
                f"commit {ledger.sequence} of {self._context.owner.connector} is in {self._path} "
                "already, and is "
                "not this run's; or its entry was removed from Delta's log after "
                "delta.logRetentionDuration: then "
                "say by PATCH of the offsets where to go on"
            )
        self._known = ledger
