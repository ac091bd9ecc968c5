"""The settings of the Iceberg sink: names of Apache Iceberg's connector, and ottla's for what it lacks."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import (
    Importance,
    Table,
    boolean,
    by_name,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.validators import at_least
from ottla.connect.spark.settings import COMMON

LOW: Final = Importance.LOW
CATALOG_PREFIX: Final = "iceberg.catalog."
HADOOP_PREFIX: Final = "iceberg.hadoop."
TABLE_PREFIX: Final = "iceberg.table."
CREATE_PREFIX: Final = "iceberg.tables.auto-create-props."
WRITE_PREFIX: Final = "iceberg.tables.write-props."

TABLES: Final = string_list(
    "iceberg.tables", (), "The tables to write, as namespace.table.", importance=Importance.HIGH
)
DYNAMIC: Final = boolean(
    "iceberg.tables.dynamic-enabled", False, "Whether the route field holds the name of each row's table."
)
ROUTE_FIELD: Final = text_or_none(
    "iceberg.tables.route-field", None, "The field that decides which tables a row goes to."
)
CREATE: Final = boolean("iceberg.tables.auto-create-enabled", False, "Whether missing tables are created.")
EVOLVE: Final = boolean(
    "iceberg.tables.evolve-schema-enabled", False, "Whether new fields become columns, and types are widened."
)
FORCE_OPTIONAL: Final = boolean(
    "iceberg.tables.schema-force-optional", False, "Whether the columns of created tables may all be null."
)
BRANCH: Final = string("iceberg.tables.default-commit-branch", "main", "The branch that gets the rows.")
IDS: Final = string_list(
    "iceberg.tables.default-id-columns", (), "The columns that identify a row, for upserts."
)
PARTITION_BY: Final = string(
    "iceberg.tables.default-partition-by",
    "",
    "The partitioning of created tables, as `day(at), bucket(id, 16), region`.",
)
UPSERT: Final = boolean(
    "iceberg.tables.upsert-mode-enabled",
    False,
    "Whether a row replaces the one with its id, and a record without a value deletes it.",
)
CATALOG: Final = string("iceberg.catalog", "iceberg", "The catalog's name.", importance=LOW)
INTERVAL_MS: Final = long.optional(
    "iceberg.control.commit.interval-ms",
    "How long records wait at most for a commit: ottla.commit.interval.ms by Iceberg's name.",
    at_least(0),
)
COMPACTION_MS: Final = long(
    "ottla.iceberg.compaction.interval.ms",
    0,
    "How often small files are rewritten into large ones, between two batches; 0: never.",
    at_least(0),
)
EXPIRE_MS: Final = long(
    "ottla.iceberg.expire.snapshots.ms",
    0,
    "The age from which snapshots are expired after a compaction; 0: none are.",
    at_least(0),
)
RETAIN: Final = integer(
    "ottla.iceberg.retain.snapshots", 10, "As many snapshots are kept whatever their age.", at_least(1)
)

TABLE: Final = Table(
    "the Iceberg sink",
    {**COMMON, **by_name(globals().values())},
    prefixes=(CATALOG_PREFIX, HADOOP_PREFIX, TABLE_PREFIX, CREATE_PREFIX, WRITE_PREFIX, "iceberg.kafka."),
)
