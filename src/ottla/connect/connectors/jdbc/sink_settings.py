"""The settings of Confluent's JDBC sink connector."""

from __future__ import annotations

import enum
from typing import Final

from ottla.config.setting import HIGH, LOW, Table, boolean, by_name, choice, integer, string, string_list
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import at_least, between, not_empty
from ottla.connect.connectors.common import GENERATION, NAME
from ottla.connect.connectors.jdbc.opening import CONNECTION_SETTINGS, UNSUPPORTED

TOPIC: Final = "${topic}"


class InsertMode(enum.StrEnum):
    """What a record with a value does."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class KeyMode(enum.StrEnum):
    """Where a row's primary key comes from."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


INSERT_MODE: Final = choice(InsertMode)(
    "insert.mode",
    InsertMode.INSERT,
    "insert; upsert: insert, or replace the row of the same key; update: change rows that are there.",
    importance=HIGH,
)
BATCH_SIZE: Final = integer("batch.size", 3000, "The most records of a transaction.", between(1, 1_000_000))
DELETE_ENABLED: Final = boolean(
    "delete.enabled",
    False,
    "Whether a record without a value deletes the row of its key (pk.mode=record_key).",
)
TABLE_TYPES: Final = string_list(
    "table.types",
    ("TABLE",),
    "The types of tables that are written: TABLE, PARTITIONED TABLE, VIEW.",
    importance=LOW,
)
TABLE_NAME_FORMAT: Final = string(
    "table.name.format",
    TOPIC,
    "The table, perhaps with its schema before a dot; ${topic} stands for the record's topic.",
    not_empty,
)
PK_MODE: Final = choice(KeyMode)(
    "pk.mode",
    KeyMode.NONE,
    "Where primary keys come from: none, kafka (topic, partition, offset), record_key, record_value.",
    importance=HIGH,
)
PK_FIELDS: Final = string_list(
    "pk.fields",
    (),
    "The columns of the primary key. kafka: three names. record_key, record_value: fields, empty for all; "
    "the one name of a key that is no struct.",
)
FIELDS_WHITELIST: Final = string_list(
    "fields.whitelist", (), "The fields of the value that are written besides the key's; empty: all."
)
AUTO_CREATE: Final = boolean("auto.create", False, "Whether a table that is missing is created.")
AUTO_EVOLVE: Final = boolean("auto.evolve", False, "Whether columns that are missing are added.")
REPLACE_NULL: Final = boolean(
    "replace.null.with.default", True, "Whether a field that is null and has a default is written as that."
)
MAX_RETRIES: Final = integer(
    "max.retries", 10, "How often the same records are tried again before the task fails.", at_least(0)
)
RETRY_BACKOFF_MS: Final = integer(
    "retry.backoff.ms", 3000, "The least time, in milliseconds, between two of these attempts.", at_least(0)
)

TABLE: Final = Table(
    "JdbcSink",
    by_name(
        (
            *CONNECTION_SETTINGS,
            NAME,
            GENERATION,
            INSERT_MODE,
            BATCH_SIZE,
            DELETE_ENABLED,
            TABLE_TYPES,
            TABLE_NAME_FORMAT,
            PK_MODE,
            PK_FIELDS,
            FIELDS_WHITELIST,
            AUTO_CREATE,
            AUTO_EVOLVE,
            REPLACE_NULL,
            MAX_RETRIES,
            RETRY_BACKOFF_MS,
        )
    ),
    unsupported=merged(
        [
            UNSUPPORTED,
            harmless("records are never logged", "trim.sensitive.log"),
            harmless("there is no SQL Server", "mssql.use.merge.holdlock"),
            refusing("a Timestamp is written as one, other fields are not", "timestamp.fields.list"),
        ]
    ),
)
