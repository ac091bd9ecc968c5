"""The settings of the PostgreSQL source: Debezium's names and defaults."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from psycopg.conninfo import make_conninfo

from ottla.config.errors import ConfigError
from ottla.config.setting import (
    HIGH,
    LOW,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    password,
    string,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import Rule, at_least, between, not_empty
from ottla.connect.cdc.core import settings as shared
from ottla.connect.cdc.core.column_rules import (
    COLUMN_TYPES,
    DATA_TYPES,
    MASK,
    TRUNCATE,
    ColumnRules,
    column_rules,
)
from ottla.connect.cdc.core.decimals import DecimalMode
from ottla.connect.cdc.core.envelope import Operation
from ottla.connect.cdc.core.filters import (
    CaptureFilter,
    KeyColumns,
    NameFilter,
    one_at_most,
    split_expressions,
)
from ottla.connect.cdc.core.names import Adjustment, Names
from ottla.connect.cdc.core.settings import (
    ADJUSTMENT,
    COLUMN_EXCLUDE,
    CONNECT_TIMEOUT_SECONDS,
    DELIMITER,
    EXTENDED_HEADERS,
    HEARTBEAT_PREFIX,
    HOSTNAME,
    ON_FAILURE,
    PASSWORD,
    TABLE_EXCLUDE,
    TOMBSTONES,
    TRANSACTION_TOPIC,
    TRANSACTIONS,
)
from ottla.connect.cdc.core.temporal import TimePrecision
from ottla.connect.cdc.postgres.catalog import SYSTEM_SCHEMAS
from ottla.connect.cdc.postgres.column_forms import (
    DEFAULT_PLACEHOLDER,
    BinaryMode,
    FormOptions,
    HstoreMode,
    IntervalMode,
    binary_value,
)
from ottla.connect.cdc.postgres.logical_messages import LogicalMessages, logical_messages
from ottla.connect.cdc.postgres.reselect import RESELECT_CLASS
from ottla.connect.cdc.postgres.shapes import Shaping
from ottla.connect.cdc.postgres.slots import Autocreate
from ottla.connect.cdc.postgres.source_block import CONNECTOR
from ottla.connect.cdc.postgres.translation import EventOptions
from ottla.connect.cdc.signalling import settings as signalling
from ottla.connect.data.building import REQUIRED
from ottla.connect.data.record import Header
from ottla.connect.data.schema import Type
from ottla.connect.plugins.required import Required, require

_SESSION: Final = (
    "-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c extra_float_digits=3 -c bytea_output=hex"
    " -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
"""What the texts of values depend on, in every session that reads them; a copy takes as long as it takes."""


class SnapshotMode(enum.StrEnum):
    """When tables are copied."""

    INITIAL = "initial"
    ALWAYS = "always"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    NEVER = "never"
    WHEN_NEEDED = "when_needed"


class LockingMode(enum.StrEnum):
    """snapshot.locking.mode."""

    NONE = "none"
    SHARED = "shared"


class SslMode(enum.StrEnum):
    """libpq's sslmode."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


def _slot_problem(value: str) -> str | None:
    fine = (
        value and len(value) <= 63 and all(each in "abcdefghijklmnopqrstuvwxyz0123456789_" for each in value)
    )
    return None if fine else "a slot's name has up to 63 of the characters a-z, 0-9 and _"


def _topic_problem(value: str | None) -> str | None:
    fine = value is None or all(each.isascii() and (each.isalnum() or each in "._-") for each in value)
    return None if fine else "only letters, digits, hyphen, dot and underscore are accepted"


def _operations_problem(value: str) -> str | None:
    words = {each.strip() for each in value.split(",") if each.strip()}
    return None if words <= {"c", "u", "d", "t", "none"} else "the operations are c, u, d, t, or none"


TOPIC_PREFIX: Final = string.optional(
    "topic.prefix",
    "What the topics' names begin with; another for each connector.",
    Required(Rule("a part of a topic's name", _topic_problem)),
    importance=HIGH,
)
PORT: Final = integer("database.port", 5432, "The server's port.", between(1, 65_535), importance=HIGH)
USER: Final = string.optional(
    "database.user", "A user with REPLICATION, who may read the tables.", Required(not_empty), importance=HIGH
)
DBNAME: Final = string.optional(
    "database.dbname", "The database whose changes are read.", Required(not_empty), importance=HIGH
)
SSLMODE: Final = choice(SslMode)("database.sslmode", SslMode.PREFER, "As libpq's sslmode.")
SSLCERT: Final = string.optional("database.sslcert", "The file of the client's certificate.")
SSLKEY: Final = string.optional("database.sslkey", "The file of the client's key.")
SSLPASSWORD: Final = password.optional("database.sslpassword", "The key's password.")
SSLROOTCERT: Final = string.optional("database.sslrootcert", "The file of the authorities that are trusted.")
PLUGIN_NAME: Final = string(
    "plugin.name",
    "pgoutput",
    "The server's plugin: pgoutput, which every server has.",
    Rule("pgoutput", lambda value: None if value == "pgoutput" else "the plugin is pgoutput"),
)
SLOT_NAME: Final = string(
    "slot.name",
    "debezium",
    "The replication slot, made if it is not there; another for each connector.",
    Rule("a slot's name", _slot_problem),
)
SLOT_DROP_ON_STOP: Final = boolean(
    "slot.drop.on.stop", False, "Whether the slot is removed when the connector stops: for tests only."
)
PUBLICATION_NAME: Final = string(
    "publication.name", "dbz_publication", "The publication whose tables are streamed.", not_empty
)
PUBLICATION_AUTOCREATE: Final = choice(Autocreate)(
    "publication.autocreate.mode",
    Autocreate.ALL_TABLES,
    "Which publication is made if there is none: of all tables, of those that are captured (filtered), of no "
    "table; disabled: none.",
)
PUBLISH_VIA_ROOT: Final = boolean(
    "publish.via.partition.root", False, "Whether partitions' changes come as those of the partitioned table."
)
STATUS_INTERVAL_MS: Final = integer(
    "status.update.interval.ms", 10_000, "How often the server is told what is confirmed.", at_least(1)
)
SNAPSHOT_MODE: Final = choice(SnapshotMode)(
    "snapshot.mode",
    SnapshotMode.INITIAL,
    "When the tables are copied: first of all (initial), that alone (initial_only), at each start (always), "
    "where the stream can't go on (when_needed), or not at all (no_data, never).",
)
SNAPSHOT_THREADS: Final = integer(
    "snapshot.max.threads",
    1,
    "How many tables, or ranges of keys of a large one, are copied at once; each has a connection.",
    between(1, 64),
)
THREADS_MULTIPLIER: Final = integer(
    "snapshot.max.threads.multiplier",
    1,
    "Of several threads: how many ranges of a table each has at least.",
    at_least(1),
    importance=LOW,
)
WHOLE_TABLES: Final = boolean(
    "legacy.snapshot.max.threads", False, "Whether threads copy whole tables, and no ranges.", importance=LOW
)
RANGE_ROWS: Final = integer(
    "ottla.snapshot.range.rows",
    100_000,
    "About how many rows the ranges of keys have, in which a large table is copied: one that was cut short "
    "starts again. 0: tables are copied whole.",
    at_least(0),
)
SCHEMA_INCLUDE: Final = string.optional("schema.include.list", "Schemas that are captured: expressions.")
SCHEMA_EXCLUDE: Final = string.optional("schema.exclude.list", "Schemas that are not.")
TABLE_INCLUDE: Final = string.optional("table.include.list", "Tables that are captured: schema.table.")
COLUMN_INCLUDE: Final = string.optional("column.include.list", "Columns of records: schema.table.column.")
SNAPSHOT_INCLUDE: Final = string.optional(
    "snapshot.include.collection.list",
    "Tables whose rows are copied, of those that are captured: expressions for schema.table.",
)
SELECT_OVERRIDES: Final = string.optional(
    "snapshot.select.statement.overrides",
    "Tables (schema.table) whose rows a statement of its own selects: the setting of this name and .TABLE.",
)
LOCKING: Final = choice(LockingMode)(
    "snapshot.locking.mode",
    LockingMode.NONE,
    "Whether tables are locked against changes of their columns while they are copied (shared).",
)
PROPAGATED_COLUMNS: Final = string.optional(
    COLUMN_TYPES, "Columns whose schemas say the name, type and length of the column: schema.table.column."
)
PROPAGATED_TYPES: Final = string.optional(DATA_TYPES, "As for columns, by schema.table.type.")
KEY_COLUMNS: Final = string.optional(
    "message.key.columns", "Keys in place of primary ones: schema.table:column,column;…"
)
PREFIX_INCLUDE: Final = string.optional(
    "message.prefix.include.list", "Prefixes of logical messages that are captured: expressions."
)
PREFIX_EXCLUDE: Final = string.optional("message.prefix.exclude.list", "Prefixes that are not.")
DECIMALS: Final = choice(DecimalMode)(
    "decimal.handling.mode", DecimalMode.PRECISE, "How numeric and money stand in records."
)
TIMES: Final = choice(TimePrecision)(
    "time.precision.mode", TimePrecision.ADAPTIVE, "How dates, times and timestamps stand in records."
)
BINARIES: Final = choice(BinaryMode)("binary.handling.mode", BinaryMode.BYTES, "How bytea stands in records.")
HSTORES: Final = choice(HstoreMode)("hstore.handling.mode", HstoreMode.JSON, "How hstore stands in records.")
INTERVALS: Final = choice(IntervalMode)(
    "interval.handling.mode", IntervalMode.NUMERIC, "interval in microseconds, or as an ISO 8601 text."
)
MONEY_DIGITS: Final = integer(
    "money.fraction.digits", 2, "The digits of money after the point.", between(0, 30), importance=LOW
)
UNKNOWN_TYPES: Final = boolean(
    "include.unknown.datatypes", False, "Whether types without a form come as the bytes of their text."
)
PLACEHOLDER: Final = string(
    "unavailable.value.placeholder",
    DEFAULT_PLACEHOLDER,
    "What stands for a large value that was not changed, and so not sent.",
)
POST_PROCESSORS: Final = string.optional(
    "post.processors",
    "Names of processors of records, each with NAME.type and settings behind NAME: "
    f"{RESELECT_CLASS} reads values again that the stream leaves out.",
)
SKIPPED: Final = string(
    "skipped.operations",
    "t",
    "Operations without records: c, u, d, t (truncate); none.",
    Rule("operations", _operations_problem),
)
SKIP_UNCHANGED: Final = boolean(
    "skip.messages.without.change",
    False,
    "Whether updates that change no column of the records have none; for tables with REPLICA IDENTITY FULL.",
)
FIELD_ADJUSTMENT: Final = choice(Adjustment)(
    "field.name.adjustment.mode", Adjustment.NONE, "How fields' names are made fit for Avro."
)
RETRY_DELAY_MS: Final = long(
    "slot.retry.delay.ms", 10_000, "Accepted; errors.retry.* say it.", at_least(0), importance=LOW
)

TABLE: Final = Table(
    "PostgresConnector",
    by_name((*vars(shared).values(), *globals().values(), *vars(signalling).values())),
    prefixes=(*signalling.PREFIXES, MASK, TRUNCATE, f"{SELECT_OVERRIDES.name}."),
    unsupported=merged(
        [
            harmless(
                "ottla has no such queue, thread or driver",
                "max.queue.size",
                "max.queue.size.in.bytes",
                "poll.interval.ms",
                "slot.max.retries",
                "snapshot.fetch.size",
                "query.fetch.size",
                "snapshot.isolation.mode",
                "database.tcpKeepAlive",
                "retriable.restart.connector.wait.ms",
                "schema.refresh.mode",
                "lsn.flush.timeout.ms",
                "lsn.flush.timeout.action",
                "xmin.fetch.interval.ms",
                "incremental.snapshot.allow.schema.changes",
                "signal.emit.failure.max.retries",
                "signal.emit.failure.backoff.ms",
            ),
            refusing(
                "custom converters are classes of Java's, which are not run here: change values by a "
                "transform (transforms), or by column.mask.* and *.handling.mode",
                "converters",
            ),
            refusing(
                "ottla does not have this yet",
                "replica.identity.autoset.values",
                "topic.heartbeat.name",
            ),
            refusing(
                "values of such settings are not carried out",
                "slot.stream.params",
                "database.initial.statements",
            ),
        ]
    ),
)


def range_rows(settings: Settings, table_rows: int) -> int:
    """About how many rows the ranges of a table have in which it is copied; 0: it is copied whole."""
    threads, most = settings[SNAPSHOT_THREADS], settings[RANGE_ROWS]
    if settings[WHOLE_TABLES] or most == 0:
        return 0
    if threads == 1:
        return most
    return max(min(most, table_rows // (threads * settings[THREADS_MULTIPLIER])), 1)


def conninfo(settings: Settings) -> str:
    """libpq's connection string. Raises ConfigError."""
    key_password, user_password = settings[SSLPASSWORD], settings[PASSWORD]
    return make_conninfo(
        "",
        host=require(settings, HOSTNAME),
        port=settings[PORT],
        user=require(settings, USER),
        password=None if user_password is None else user_password.value,
        dbname=require(settings, DBNAME),
        sslmode=settings[SSLMODE].value,
        sslcert=settings[SSLCERT],
        sslkey=settings[SSLKEY],
        sslpassword=None if key_password is None else key_password.value,
        sslrootcert=settings[SSLROOTCERT],
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        application_name="ottla",
        client_encoding="UTF8",
        options=_SESSION,
    )


def capture_filter(settings: Settings) -> CaptureFilter:
    """What is captured. Raises ConfigError."""
    return CaptureFilter(
        _name_filter(settings, SCHEMA_INCLUDE, SCHEMA_EXCLUDE),
        _name_filter(settings, TABLE_INCLUDE, TABLE_EXCLUDE),
        _name_filter(settings, COLUMN_INCLUDE, COLUMN_EXCLUDE),
        SYSTEM_SCHEMAS,
        _listed(settings, SNAPSHOT_INCLUDE),
        settings[signalling.COLLECTION],
    )


def _name_filter(
    settings: Settings, include: Setting[str | None], exclude: Setting[str | None]
) -> NameFilter:
    problem = one_at_most(((include.name, settings[include]), (exclude.name, settings[exclude])))
    if problem is not None:
        raise settings.refusal(exclude.name, problem)
    try:
        return NameFilter.of(settings[include], settings[exclude])
    except ValueError as wrong:
        raise settings.refusal(include.name if settings[include] else exclude.name, str(wrong)) from None


def _listed(settings: Settings, include: Setting[str | None]) -> NameFilter:
    try:
        return NameFilter.of(settings[include], None)
    except ValueError as wrong:
        raise settings.refusal(include.name, str(wrong)) from None


def _rules(settings: Settings) -> ColumnRules:
    try:
        return column_rules(
            settings.with_prefix(MASK),
            settings.with_prefix(TRUNCATE),
            settings[PROPAGATED_COLUMNS],
            settings[PROPAGATED_TYPES],
        )
    except ValueError as wrong:
        raise ConfigError(str(wrong)) from None


def overrides(settings: Settings) -> Mapping[str, str]:
    """The statements that select the rows of tables to copy, by schema.table. Raises ConfigError."""
    found = {}
    for name in split_expressions(settings[SELECT_OVERRIDES] or ""):
        setting = f"{SELECT_OVERRIDES.name}.{name}"
        statement = settings.with_prefix(f"{SELECT_OVERRIDES.name}.").get(name)
        if statement is None or not statement.strip():
            raise ConfigError(f"{SELECT_OVERRIDES.name}: {setting} is missing, the statement for {name}")
        found[name] = statement.strip().rstrip(";")
    return found


def shaping(settings: Settings) -> Shaping:
    """How tables become schemas. Raises ConfigError."""
    try:
        keys = KeyColumns.of(settings[KEY_COLUMNS])
    except ValueError as wrong:
        raise settings.refusal(KEY_COLUMNS.name, str(wrong)) from None
    options = FormOptions(
        settings[DECIMALS],
        settings[TIMES],
        settings[HSTORES],
        settings[INTERVALS],
        settings[BINARIES],
        settings[PLACEHOLDER],
        settings[UNKNOWN_TYPES],
        settings[MONEY_DIGITS],
    )
    return Shaping(
        names(settings),
        options,
        capture_filter(settings),
        keys,
        settings[ON_FAILURE],
        _rules(settings),
        settings[FIELD_ADJUSTMENT],
    )


def names(settings: Settings) -> Names:
    """The names of topics and schemas. Raises ConfigError."""
    return Names(
        require(settings, TOPIC_PREFIX),
        settings[DELIMITER],
        settings[HEARTBEAT_PREFIX],
        settings[TRANSACTION_TOPIC],
        settings[ADJUSTMENT],
    )


def event_options(settings: Settings) -> EventOptions:
    """Which events there are. Raises ConfigError."""
    return EventOptions(
        names(settings),
        require(settings, DBNAME),
        settings[TOMBSTONES],
        _operations(each.strip() for each in settings[SKIPPED].split(",")),
        settings[TRANSACTIONS],
        _messages(settings),
        _context(settings) if settings[EXTENDED_HEADERS] else (),
        settings[SKIP_UNCHANGED],
    )


def _messages(settings: Settings) -> LogicalMessages:
    schema, convert = binary_value(settings[BINARIES])
    prefixes = _name_filter(settings, PREFIX_INCLUDE, PREFIX_EXCLUDE)
    return logical_messages(require(settings, TOPIC_PREFIX), schema, convert, prefixes)


def _context(settings: Settings) -> tuple[Header, ...]:
    """The headers of every change: the connector's names, and an id of this run."""
    values = (
        ("connectorLogicalName", require(settings, TOPIC_PREFIX)),
        ("taskId", "0"),
        ("connectorName", CONNECTOR),
        ("runId", str(uuid.uuid4())),
    )
    return tuple(Header(f"__debezium.context.{name}", text, REQUIRED[Type.STRING]) for name, text in values)


def _operations(words: Iterable[str]) -> frozenset[Operation]:
    return frozenset(Operation(each) for each in words if each and each != "none")
