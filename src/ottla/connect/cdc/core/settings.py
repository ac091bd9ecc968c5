"""The settings that the change sources of all databases have, under Debezium's names."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import HIGH, LOW, boolean, choice, integer, password, string
from ottla.config.validators import at_least, between, not_empty
from ottla.connect.cdc.core.names import Adjustment
from ottla.connect.cdc.core.tables import OnFailure
from ottla.connect.plugins.required import Required

CONNECT_TIMEOUT_SECONDS: Final = 10
HOSTNAME: Final = string.optional(
    "database.hostname", "The server's host.", Required(not_empty), importance=HIGH
)
PASSWORD: Final = password.optional("database.password", "The user's password.", importance=HIGH)
TABLE_EXCLUDE: Final = string.optional("table.exclude.list", "Tables that are not.")
COLUMN_EXCLUDE: Final = string.optional("column.exclude.list", "Columns that records leave out.")
ON_FAILURE: Final = choice(OnFailure)(
    "event.converting.failure.handling.mode",
    OnFailure.WARN,
    "What a value without a form does: fail, or null with or without a warning.",
)
TOMBSTONES: Final = boolean("tombstones.on.delete", True, "Whether a tombstone comes after a delete.")
TRANSACTIONS: Final = boolean(
    "provide.transaction.metadata",
    False,
    "Whether transactions have records of their own, and changes a block.",
)
HEARTBEAT_MS: Final = integer(
    "heartbeat.interval.ms", 0, "How often a heartbeat is written; 0: never.", at_least(0)
)
HEARTBEAT_PREFIX: Final = string(
    "topic.heartbeat.prefix", "__debezium-heartbeat", "What the heartbeats' topic begins with.", not_empty
)
HEARTBEAT_QUERY: Final = string.optional(
    "heartbeat.action.query", "A statement that is run with each heartbeat.", importance=LOW
)
TRANSACTION_TOPIC: Final = string(
    "topic.transaction", "transaction", "The end of that topic's name.", not_empty
)
DELIMITER: Final = string(
    "topic.delimiter", ".", "What stands between the parts of topics' names.", not_empty
)
ADJUSTMENT: Final = choice(Adjustment)(
    "schema.name.adjustment.mode", Adjustment.NONE, "How schemas' names are made fit for Avro."
)
EXTENDED_HEADERS: Final = boolean(
    "extended.headers.enabled", True, "Whether changes have headers that name the connector and its run."
)
MAX_BATCH_SIZE: Final = integer("max.batch.size", 2048, "The most records of a batch.", between(1, 1_000_000))
