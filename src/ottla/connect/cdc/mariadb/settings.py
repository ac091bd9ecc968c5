"""The settings of the MariaDB source: Debezium's names and defaults."""

from __future__ import annotations

import enum
import uuid
from pathlib import Path
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.config.setting import (
    HIGH,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    string,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import Rule, at_least, between, not_empty
from ottla.connect.cdc.core import settings as shared
from ottla.connect.cdc.core.decimals import DecimalMode
from ottla.connect.cdc.core.envelope import Operation
from ottla.connect.cdc.core.filters import CaptureFilter, KeyColumns, NameFilter, one_at_most
from ottla.connect.cdc.core.names import Names
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
from ottla.connect.cdc.mariadb.column_forms import BigintUnsignedMode, BinaryMode, FormOptions
from ottla.connect.cdc.mariadb.history import FileStore, History, KafkaStore
from ottla.connect.cdc.mariadb.server import SYSTEM_DATABASES
from ottla.connect.cdc.mariadb.shapes import Shaping
from ottla.connect.cdc.mariadb.snapshot import LockingMode
from ottla.connect.cdc.mariadb.source_block import CONNECTOR
from ottla.connect.cdc.mariadb.translation import EventOptions
from ottla.connect.cdc.signalling import settings as signalling
from ottla.connect.data.building import REQUIRED
from ottla.connect.data.record import Header
from ottla.connect.data.schema import Type
from ottla.connect.plugins.required import Required, require

READ_TIMEOUT_SECONDS: Final = 600
KAFKA_HISTORY: Final = "io.debezium.storage.kafka.history.KafkaSchemaHistory"
FILE_HISTORY: Final = "io.debezium.storage.file.history.FileSchemaHistory"
_HISTORY: Final = "schema.history.internal"


class SnapshotMode(enum.StrEnum):
    """When tables are copied."""

    INITIAL = "initial"
    ALWAYS = "always"
    INITIAL_ONLY = "initial_only"
    NO_DATA = "no_data"
    SCHEMA_ONLY = "schema_only"
    NEVER = "never"
    WHEN_NEEDED = "when_needed"
    RECOVERY = "recovery"


class SslMode(enum.StrEnum):
    """database.ssl.mode."""

    DISABLE = "disable"
    TRUST = "trust"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


def _topic_problem(value: str | None) -> str | None:
    fine = value is None or all(each.isascii() and (each.isalnum() or each in "._-") for each in value)
    return None if fine else "only letters, digits, hyphen, dot and underscore are accepted"


def _operations_problem(value: str) -> str | None:
    words = {each.strip() for each in value.split(",") if each.strip()}
    return None if words <= {"c", "u", "d", "t", "none"} else "the operations are c, u, d, t, or none"


def _times_problem(value: TimePrecision) -> str | None:
    return None if value is not TimePrecision.ADAPTIVE else "adaptive has no form for times of MariaDB"


def _history_problem(value: str) -> str | None:
    return None if value in (KAFKA_HISTORY, FILE_HISTORY) else f"{KAFKA_HISTORY} or {FILE_HISTORY}"


TOPIC_PREFIX: Final = string.optional(
    "topic.prefix",
    "What the topics' names begin with, and the name of the topic of schema changes.",
    Required(Rule("a part of a topic's name", _topic_problem)),
    importance=HIGH,
)
PORT: Final = integer("database.port", 3306, "The server's port.", between(1, 65_535), importance=HIGH)
USER: Final = string.optional(
    "database.user",
    "A user with REPLICATION SLAVE, REPLICATION CLIENT and RELOAD, who may read the tables.",
    Required(not_empty),
    importance=HIGH,
)
SERVER_ID: Final = long.optional(
    "database.server.id",
    "The number of this connector among the server's replicas: another one than all of theirs.",
    Required(between(1, 4_294_967_295)),
    importance=HIGH,
)
SSL_MODE: Final = choice(SslMode)(
    "database.ssl.mode", SslMode.DISABLE, "Whether the connection is encrypted, and what is verified."
)
SSL_CA: Final = string.optional(
    "database.ssl.ca", "The file of the authorities that are trusted (ottla's own: PEM)."
)
SSL_CERT: Final = string.optional("database.ssl.cert", "The file of the client's certificate (ottla's own).")
SSL_KEY: Final = string.optional("database.ssl.key", "The file of the client's key (ottla's own).")
SNAPSHOT_MODE: Final = choice(SnapshotMode)(
    "snapshot.mode",
    SnapshotMode.INITIAL,
    "When the tables are copied: first of all (initial), that alone (initial_only), at each start (always), "
    "where the stream can't go on (when_needed), or not at all (no_data, schema_only; never: from the oldest "
    "binary log); recovery: the schema history is begun again from the tables as they are.",
)
LOCKING_MODE: Final = choice(LockingMode)(
    "snapshot.locking.mode",
    LockingMode.MINIMAL,
    "Whether a global read lock is held while a copy begins (minimal), until it ends (extended), or not.",
)
LOCK_TIMEOUT_MS: Final = long(
    "snapshot.lock.timeout.ms", 10_000, "How long a copy waits for its lock.", at_least(1)
)
DATABASE_INCLUDE: Final = string.optional(
    "database.include.list", "Databases that are captured: expressions."
)
DATABASE_EXCLUDE: Final = string.optional("database.exclude.list", "Databases that are not.")
TABLE_INCLUDE: Final = string.optional("table.include.list", "Tables that are captured: database.table.")
COLUMN_INCLUDE: Final = string.optional("column.include.list", "Columns of records: database.table.column.")
KEY_COLUMNS: Final = string.optional(
    "message.key.columns", "Keys in place of primary ones: database.table:column,column;…"
)
GTID_INCLUDES: Final = string.optional(
    "gtid.source.includes", "Sources of transactions that are read, as domain-server: expressions."
)
GTID_EXCLUDES: Final = string.optional("gtid.source.excludes", "Sources that are not.")
GTID_FILTERS_DML: Final = boolean(
    "gtid.source.filter.dml.events",
    True,
    "Whether changes of other sources are left out; if not, they choose only where the stream begins.",
)
DECIMALS: Final = choice(DecimalMode)(
    "decimal.handling.mode", DecimalMode.PRECISE, "How DECIMAL stands in records."
)
BIGINTS: Final = choice(BigintUnsignedMode)(
    "bigint.unsigned.handling.mode",
    BigintUnsignedMode.LONG,
    "BIGINT UNSIGNED as a 64-bit number, whose upper half is negative (long), or as a Decimal (precise).",
)
TIMES: Final = choice(TimePrecision)(
    "time.precision.mode",
    TimePrecision.ADAPTIVE_TIME_MICROSECONDS,
    "How dates, times and timestamps stand in records.",
    Rule("one for times beyond a day", _times_problem),
)
BINARIES: Final = choice(BinaryMode)(
    "binary.handling.mode", BinaryMode.BYTES, "How BINARY, VARBINARY and BLOB stand in records."
)
ADJUSTER: Final = boolean(
    "enable.time.adjuster", True, "Whether years below 100 are of this century and the last one."
)
SKIPPED: Final = string(
    "skipped.operations",
    "t",
    "Operations without records: c, u, d, t (truncate); none.",
    Rule("operations", _operations_problem),
)
QUERY: Final = boolean(
    "include.query", False, "Whether changes name their statement (binlog_annotate_row_events has to be on)."
)
SCHEMA_CHANGES: Final = boolean(
    "include.schema.changes", True, "Whether DDL is told in a topic named as topic.prefix says."
)
HISTORY: Final = string(
    _HISTORY, KAFKA_HISTORY, "Where the schema history is kept.", Rule("a history", _history_problem)
)
HISTORY_TOPIC: Final = string.optional(f"{_HISTORY}.kafka.topic", "Its topic, of one partition.")
HISTORY_SERVERS: Final = string.optional(
    f"{_HISTORY}.kafka.bootstrap.servers", "The cluster of that topic: HOST:PORT,…"
)
HISTORY_FILE: Final = string.optional(f"{_HISTORY}.file.filename", "Its file.")
HISTORY_CONSUMER: Final = f"{_HISTORY}.consumer."
HISTORY_PRODUCER: Final = f"{_HISTORY}.producer."
ONLY_CAPTURED_DDL: Final = boolean(
    f"{_HISTORY}.store.only.captured.tables.ddl", False, "Whether DDL of other tables is left out."
)
SKIPS_BAD_DDL: Final = boolean(
    f"{_HISTORY}.skip.unparseable.ddl", False, "Whether DDL that can't be understood is left out."
)

TABLE: Final = Table(
    "MariaDbConnector",
    by_name((*vars(shared).values(), *globals().values(), *vars(signalling).values())),
    prefixes=(HISTORY_CONSUMER, HISTORY_PRODUCER, *signalling.PREFIXES),
    unsupported=merged(
        [
            harmless(
                "ottla has no such queue, thread or driver",
                "max.queue.size",
                "max.queue.size.in.bytes",
                "poll.interval.ms",
                "binlog.buffer.size",
                "connect.keep.alive",
                "connect.keep.alive.interval.ms",
                "connect.timeout.ms",
                "min.row.count.to.stream.results",
                "snapshot.fetch.size",
                "snapshot.max.threads",
                "query.fetch.size",
                "use.nongraceful.disconnect",
                "binlog.net.read.timeout",
                "binlog.net.write.timeout",
                "database.server.id.offset",
                "database.protocol",
                "database.jdbc.driver",
                "retriable.restart.connector.wait.ms",
                "table.ignore.builtin",
                "incremental.snapshot.allow.schema.changes",
                "signal.emit.failure.max.retries",
                "signal.emit.failure.backoff.ms",
                f"{_HISTORY}.kafka.recovery.poll.interval.ms",
                f"{_HISTORY}.kafka.recovery.attempts",
                f"{_HISTORY}.kafka.query.timeout.ms",
                f"{_HISTORY}.kafka.create.timeout.ms",
            ),
            refusing(
                "ottla does not have this yet",
                "converters",
                "post.processors",
                "snapshot.select.statement.overrides",
                "snapshot.include.collection.list",
                "column.propagate.source.type",
                "datatype.propagate.source.type",
                "topic.heartbeat.name",
                "inconsistent.schema.handling.mode",
                "event.deserialization.failure.handling.mode",
                "include.schema.comments",
            ),
            refusing(
                "certificates are files of PEM: database.ssl.ca, .cert and .key",
                "database.ssl.keystore",
                "database.ssl.keystore.password",
                "database.ssl.truststore",
                "database.ssl.truststore.password",
            ),
            refusing("values would leave the database as they are", "column.mask.", "column.truncate."),
            refusing("values of such settings are not carried out", "database.initial.statements"),
        ]
    ),
)


def connect_options(settings: Settings) -> dict[str, Any]:
    """PyMySQL's options of a connection. Raises ConfigError."""
    secret = settings[PASSWORD]
    options: dict[str, Any] = {
        "host": require(settings, HOSTNAME),
        "port": settings[PORT],
        "user": require(settings, USER),
        "password": "" if secret is None else secret.value,
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "read_timeout": READ_TIMEOUT_SECONDS,
        "program_name": "ottla",
    }
    mode = settings[SSL_MODE]
    if mode is SslMode.DISABLE:
        return options | {"ssl_disabled": True}
    verifies = mode in (SslMode.VERIFY_CA, SslMode.VERIFY_FULL)
    if verifies and settings[SSL_CA] is None:
        raise settings.refusal(SSL_CA.name, f"database.ssl.mode={mode.value} needs the authorities' file")
    return options | {
        "ssl_ca": settings[SSL_CA],
        "ssl_cert": settings[SSL_CERT],
        "ssl_key": settings[SSL_KEY],
        "ssl_verify_cert": verifies,
        "ssl_verify_identity": mode is SslMode.VERIFY_FULL,
        "ssl": {"check_hostname": mode is SslMode.VERIFY_FULL} if not verifies else None,
    }


def capture_filter(settings: Settings) -> CaptureFilter:
    """What is captured. Raises ConfigError."""
    return CaptureFilter(
        _name_filter(settings, DATABASE_INCLUDE, DATABASE_EXCLUDE),
        _name_filter(settings, TABLE_INCLUDE, TABLE_EXCLUDE),
        _name_filter(settings, COLUMN_INCLUDE, COLUMN_EXCLUDE),
        SYSTEM_DATABASES,
        signals=settings[signalling.COLLECTION],
    )


def gtid_sources(settings: Settings) -> NameFilter:
    """The sources of transactions that are read. Raises ConfigError."""
    return _name_filter(settings, GTID_INCLUDES, GTID_EXCLUDES)


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


def shaping(settings: Settings) -> Shaping:
    """How tables become schemas. Raises ConfigError."""
    try:
        keys = KeyColumns.of(settings[KEY_COLUMNS])
    except ValueError as wrong:
        raise settings.refusal(KEY_COLUMNS.name, str(wrong)) from None
    options = FormOptions(
        settings[DECIMALS], settings[TIMES], settings[BIGINTS], settings[BINARIES], settings[ADJUSTER]
    )
    return Shaping(names(settings), options, capture_filter(settings), keys, settings[ON_FAILURE])


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
    operations = (each.strip() for each in settings[SKIPPED].split(","))
    return EventOptions(
        names(settings),
        settings[TOMBSTONES],
        frozenset(Operation(each) for each in operations if each and each != "none"),
        settings[TRANSACTIONS],
        settings[SCHEMA_CHANGES],
        settings[QUERY],
        settings[ONLY_CAPTURED_DDL],
        settings[SKIPS_BAD_DDL],
        _context(settings) if settings[EXTENDED_HEADERS] else (),
    )


def _context(settings: Settings) -> tuple[Header, ...]:
    """The headers of every change: the connector's names, and an id of this run."""
    values = (
        ("connectorLogicalName", require(settings, TOPIC_PREFIX)),
        ("taskId", "0"),
        ("connectorName", CONNECTOR),
        ("runId", str(uuid.uuid4())),
    )
    return tuple(Header(f"__debezium.context.{name}", text, REQUIRED[Type.STRING]) for name, text in values)


def history(settings: Settings) -> History:
    """The schema history. Raises ConfigError."""
    prefix = require(settings, TOPIC_PREFIX)
    if settings[HISTORY] == FILE_HISTORY:
        file = settings[HISTORY_FILE]
        if not file:
            raise settings.refusal(HISTORY_FILE.name, "the file of the schema history must be given")
        return History(FileStore(Path(file)), prefix)
    topic, servers = settings[HISTORY_TOPIC], settings[HISTORY_SERVERS]
    if not topic:
        raise settings.refusal(HISTORY_TOPIC.name, "the topic of the schema history must be given")
    if not servers:
        raise settings.refusal(HISTORY_SERVERS.name, "the cluster of the schema history must be given")
    reading = ClusterAccess(servers, settings.with_prefix(HISTORY_CONSUMER))
    writing = ClusterAccess(servers, settings.with_prefix(HISTORY_PRODUCER))
    return History(KafkaStore(reading, writing, topic), prefix)
