"""The settings of Confluent's JDBC source connector."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final

from ottla.config.setting import (
    HIGH,
    LOW,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    string,
    string_list,
)
from ottla.config.unsupported import harmless, merged
from ottla.config.validators import Rule, at_least, between
from ottla.connect.connectors.common import NAME
from ottla.connect.connectors.jdbc.columns import Granularity, NumericMapping
from ottla.connect.connectors.jdbc.opening import CONNECTION_SETTINGS, UNSUPPORTED
from ottla.connect.plugins.required import Required

MAX_PATTERN: Final = 10_000


class Mode(enum.StrEnum):
    """How new rows are found."""

    BULK = "bulk"
    TIMESTAMP = "timestamp"
    INCREMENTING = "incrementing"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"


def _patterns_problem(value: Sequence[str]) -> str | None:
    for each in value:
        if len(each) > MAX_PATTERN:
            return f"a pattern has more than {MAX_PATTERN} characters"
        try:
            re.compile(each)
        except (re.error, RecursionError, OverflowError) as problem:
            return f"{each!r} is no regular expression: {problem}"
    return None


def _mappings_problem(value: Sequence[str]) -> str | None:
    for each in value:
        if not each.rpartition(":")[0] or not each.rpartition(":")[2].strip("[]| "):
            return f"{each!r} is not pattern:column"
    return _patterns_problem([each.rpartition(":")[0] for each in value])


_PATTERNS: Final = Rule("regular expressions", _patterns_problem)
_MAPPINGS: Final = Rule("pattern:column, …", _mappings_problem)

MODE: Final = choice(Mode).optional(
    "mode",
    "How new rows are found: bulk reads everything each time; incrementing, rows with a greater number; "
    "timestamp, rows with a later timestamp; timestamp+incrementing, both.",
    Required(),
    importance=HIGH,
)
INCREMENTING_COLUMN: Final = string(
    "incrementing.column.name", "", "The column of the number; empty: the one that the database counts up."
)
INCREMENTING_MAPPING: Final = string_list(
    "incrementing.column.mapping", (), "The same by table, pattern:column, in place of it.", _MAPPINGS
)
TIMESTAMP_COLUMNS: Final = string_list(
    "timestamp.column.name", (), "The columns of the timestamp; the first that is not null counts."
)
TIMESTAMP_MAPPING: Final = string_list(
    "timestamp.columns.mapping", (), "The same by table, pattern:[column|column], in place of it.", _MAPPINGS
)
TIMESTAMP_INITIAL: Final = long.optional(
    "timestamp.initial",
    "Without an offset, only rows that are later than this are read: milliseconds since 1970; -1: now.",
    at_least(-1),
    importance=LOW,
)
TIMESTAMP_DELAY_MS: Final = long(
    "timestamp.delay.interval.ms",
    0,
    "How long, in milliseconds, rows are left alone, so that transactions with earlier timestamps can end.",
    at_least(0),
    importance=HIGH,
)
TIMESTAMP_GRANULARITY: Final = choice(Granularity)(
    "timestamp.granularity",
    Granularity.CONNECT_LOGICAL,
    "What timestamps become: Connect's, in milliseconds; or numbers or texts of micro- or nanoseconds.",
    importance=LOW,
)
VALIDATE_NON_NULL: Final = boolean(
    "validate.non.null",
    True,
    "Whether columns of numbers and timestamps that may be null are refused.",
    importance=LOW,
)
QUERY: Final = string("query", "", "A query in place of tables; WHERE and ORDER BY are put behind it.")
QUERY_SUFFIX: Final = string("query.suffix", "", "What is put behind every query.", importance=LOW)
TABLE_WHITELIST: Final = string_list("table.whitelist", (), "The tables, with or without their schemas.")
TABLE_BLACKLIST: Final = string_list("table.blacklist", (), "Tables that are left out.")
TABLE_INCLUDE: Final = string_list(
    "table.include.list", (), "Regular expressions of the tables' names with their schemas.", _PATTERNS
)
TABLE_EXCLUDE: Final = string_list(
    "table.exclude.list", (), "The same of tables that are left out.", _PATTERNS
)
TABLE_TYPES: Final = string_list(
    "table.types",
    ("TABLE",),
    "TABLE, PARTITIONED TABLE, VIEW, MATERIALIZED VIEW, FOREIGN TABLE.",
    importance=LOW,
)
CATALOG_PATTERN: Final = string.optional(
    "catalog.pattern", "A pattern of SQL's LIKE for catalogs; empty: tables without one."
)
SCHEMA_PATTERN: Final = string.optional(
    "schema.pattern", "A pattern of SQL's LIKE for schemas; empty: tables without one.", importance=HIGH
)
TABLE_POLL_MS: Final = long(
    "table.poll.interval.ms",
    60_000,
    "How often, in milliseconds, new and deleted tables are looked for.",
    at_least(1),
    importance=LOW,
)
POLL_MS: Final = integer(
    "poll.interval.ms",
    5000,
    "How often, in milliseconds, new rows are looked for.",
    at_least(0),
    importance=HIGH,
)
BATCH_MAX_ROWS: Final = integer(
    "batch.max.rows", 100, "The most rows of a batch.", between(1, 100_000), importance=LOW
)
TOPIC_PREFIX: Final = string.optional(
    "topic.prefix",
    "What stands before the table's name in that of its topic; with a query, the topic.",
    Required(),
    importance=HIGH,
)
NUMERIC_MAPPING: Final = choice(NumericMapping).optional(
    "numeric.mapping",
    "What NUMERIC columns become: Decimals, or whole numbers and floating ones where they fit.",
    importance=LOW,
)
NUMERIC_PRECISION_MAPPING: Final = boolean(
    "numeric.precision.mapping", False, "Deprecated: numeric.mapping=precision_only.", importance=LOW
)

TABLE: Final = Table(
    "JdbcSource",
    by_name(
        (
            *CONNECTION_SETTINGS,
            NAME,
            MODE,
            INCREMENTING_COLUMN,
            INCREMENTING_MAPPING,
            TIMESTAMP_COLUMNS,
            TIMESTAMP_MAPPING,
            TIMESTAMP_INITIAL,
            TIMESTAMP_DELAY_MS,
            TIMESTAMP_GRANULARITY,
            VALIDATE_NON_NULL,
            QUERY,
            QUERY_SUFFIX,
            TABLE_WHITELIST,
            TABLE_BLACKLIST,
            TABLE_INCLUDE,
            TABLE_EXCLUDE,
            TABLE_TYPES,
            CATALOG_PATTERN,
            SCHEMA_PATTERN,
            TABLE_POLL_MS,
            POLL_MS,
            BATCH_MAX_ROWS,
            TOPIC_PREFIX,
            NUMERIC_MAPPING,
            NUMERIC_PRECISION_MAPPING,
        )
    ),
    unsupported=merged(
        [
            UNSUPPORTED,
            harmless("a query that fails is tried again by the runtime", "query.retry.attempts"),
            harmless("queries see what is committed", "transaction.isolation.mode", nothing=("default",)),
        ]
    ),
)
