"""The settings of Confluent's Elasticsearch sink that this one has, and those that it has not."""

from __future__ import annotations

import enum
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
    password,
    string,
    string_list,
)
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import ListOf, at_least, between
from ottla.connect.plugins.required import Required


class OnNull(enum.StrEnum):
    """What becomes of a record without a value."""

    IGNORE = "ignore"
    DELETE = "delete"
    FAIL = "fail"


class OnMalformed(enum.StrEnum):
    """What becomes of a document that does not fit its index."""

    IGNORE = "ignore"
    WARN = "warn"
    FAIL = "fail"


class WriteMethod(enum.StrEnum):
    """Whether a document replaces the one before, or its fields are put into it."""

    INSERT = "insert"
    UPSERT = "upsert"


CONNECTION_URL: Final = string_list.optional(
    "connection.url",
    "The server's URLs, http://host:9200; the first that answers is used.",
    Required(ListOf(empty=False)),
    importance=HIGH,
)
CONNECTION_USERNAME: Final = string.optional("connection.username", "The user.")
CONNECTION_PASSWORD: Final = password.optional("connection.password", "The user's password.")
CONNECTION_TIMEOUT_MS: Final = integer(
    "connection.timeout.ms", 1000, "How long a connection may take.", at_least(1), importance=LOW
)
READ_TIMEOUT_MS: Final = integer(
    "read.timeout.ms", 3000, "How long an answer may take.", at_least(1), importance=LOW
)
BATCH_SIZE: Final = integer("batch.size", 2000, "The most records of a request.", between(1, 1_000_000))
BULK_SIZE_BYTES: Final = long(
    "bulk.size.bytes", 5 << 20, "The most bytes of a request, or one record.", at_least(-1), importance=LOW
)
MAX_RETRIES: Final = integer(
    "max.retries", 5, "How often documents are sent again for which a server is too busy.", at_least(0)
)
RETRY_BACKOFF_MS: Final = long(
    "retry.backoff.ms", 100, "The time before the first of these; each doubles it, up to 10 s.", at_least(0)
)
KEY_IGNORE: Final = boolean(
    "key.ignore",
    False,
    "Ids are topic+partition+offset, not the records' keys: then each record is a document.",
    importance=HIGH,
)
TOPIC_KEY_IGNORE: Final = string_list("topic.key.ignore", (), "Topics with key.ignore=true.", importance=LOW)
SCHEMA_IGNORE: Final = boolean(
    "schema.ignore",
    False,
    "No mapping is made of the records' schema: the server finds the types.",
    importance=LOW,
)
TOPIC_SCHEMA_IGNORE: Final = string_list(
    "topic.schema.ignore", (), "Topics with schema.ignore=true.", importance=LOW
)
DROP_INVALID_MESSAGE: Final = boolean(
    "drop.invalid.message",
    False,
    "A record that makes no document is left out, with a warning.",
    importance=LOW,
)
BEHAVIOR_ON_NULL_VALUES: Final = choice(OnNull)(
    "behavior.on.null.values", OnNull.FAIL, "What becomes of a record without a value.", importance=LOW
)
BEHAVIOR_ON_MALFORMED: Final = choice(OnMalformed)(
    "behavior.on.malformed.documents",
    OnMalformed.FAIL,
    "What becomes of a document that does not fit its index. fail: it goes to the dead letters, or ends the "
    "task, as errors.tolerance says.",
    importance=LOW,
)
WRITE_METHOD: Final = choice(WriteMethod)(
    "write.method",
    WriteMethod.INSERT,
    "insert: a document replaces the one of its id. upsert: its fields are put into that.",
    importance=LOW,
)

_SYNCHRONOUS: Final = "a batch is written when it is taken, in its order"

TABLE: Final = Table(
    "ElasticsearchSink",
    by_name(globals().values()),
    unsupported=merged(
        [
            harmless(
                _SYNCHRONOUS,
                "max.in.flight.requests",
                "max.buffered.records",
                "linger.ms",
                "flush.timeout.ms",
                "flush.synchronously",
            ),
            harmless("compression of requests is not there", "connection.compression"),
            harmless("versions 7 and later have no types", "type.name"),
            refusing(
                "data streams, aliases and other resources than indexes are not written",
                "data.stream.dataset",
                "data.stream.type",
                "data.stream.namespace",
                "data.stream.timestamp.field",
                "external.resource.usage",
                "topic.to.external.resource.mapping",
                nothing=("none", "disabled", "${topic}"),
            ),
            refusing(
                "https uses the authorities of this machine alone",
                "elastic.security.protocol",
                "elastic.https.",
                nothing=("plaintext",),
            ),
            refusing("there are no proxies", "proxy.host", "proxy.port", "proxy.username", "proxy.password"),
            refusing("there is no Kerberos", "kerberos.user.principal", "kerberos.keytab.path"),
        ]
    ),
)
