"""The settings of `ottla rest`, by the names that Confluent's REST Proxy gives them.

Other settings that begin with `client.`, `producer.`, `consumer.` or `admin.` go, without that prefix, to the
Kafka clients (librdkafka's names); `client.` to all of them.
"""

from __future__ import annotations

from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.config.setting import (
    HIGH,
    LOW,
    Setting,
    Table,
    by_name,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.validators import ListOf, at_least, between, not_empty

DEFAULT_LISTEN: Final = "127.0.0.1:8082"

BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster.", not_empty, importance=HIGH
)
SCHEMA_REGISTRY_URL: Final = string(
    "schema.registry.url",
    "http://127.0.0.1:8081",
    "The Schema Registry: the URLs of one or more instances, with commas between.",
    not_empty,
    importance=HIGH,
)
LISTENERS: Final[Setting[tuple[str, ...]]] = string_list(
    "listeners",
    (DEFAULT_LISTEN,),
    "Where HTTP clients connect, as host:port or http://host:port; the first counts.",
    ListOf(empty=False),
    importance=HIGH,
)
HOST_NAME: Final = text_or_none(
    "host.name", None, "The host of the URLs in answers; by default that of the request."
)
INSTANCE_ID: Final = text_or_none(
    "id",
    None,
    "The name of this proxy, a part of the ids of its consumer instances.",
    importance=HIGH,
)
CONSUMER_REQUEST_TIMEOUT_MS: Final = long(
    "consumer.request.timeout.ms", 1_000, "The longest time in which a read collects records.", at_least(1)
)
CONSUMER_REQUEST_MAX_BYTES: Final = long(
    "consumer.request.max.bytes",
    64 << 20,
    "The most bytes of keys and values that a read returns.",
    at_least(1),
)
CONSUMER_INSTANCE_TIMEOUT_MS: Final = long(
    "consumer.instance.timeout.ms",
    300_000,
    "A consumer instance that is unused for this time is removed.",
    at_least(1),
    importance=LOW,
)
CONSUMER_INSTANCES: Final = integer(
    "ottla.consumer.instances",
    200,
    "The most consumer instances that live at a time.",
    between(1, 10_000),
    importance=LOW,
)
FETCH_MIN_BYTES: Final = integer(
    "fetch.min.bytes",
    -1,
    "A read ends as soon as it has so many bytes; -1: it takes all of its time.",
    between(-1, 10_000_000),
    importance=LOW,
)
RESPONSE_TIMEOUT_MS: Final = long(
    "api.v3.produce.response.timeout.ms",
    30_000,
    "How long a record may take to be acknowledged.",
    at_least(1),
    importance=LOW,
)
ADMIN_TIMEOUT_MS: Final = integer(
    "ottla.admin.timeout.ms",
    30_000,
    "How long the cluster may take to answer an admin request.",
    between(100, 600_000),
    importance=LOW,
)
MAX_BODY_BYTES: Final = integer(
    "ottla.max.body.bytes",
    64 << 20,
    "The largest request, or record of a stream of records.",
    between(1_024, 1 << 30),
    importance=LOW,
)

CLIENT_PREFIX: Final = "client."
CONSUMER_PREFIX: Final = "consumer."
PRODUCER_PREFIX: Final = "producer."
ADMIN_PREFIX: Final = "admin."

TABLE: Final = Table(
    title="ottla rest",
    settings=by_name(globals().values()),
    prefixes=(CLIENT_PREFIX, CONSUMER_PREFIX, PRODUCER_PREFIX, ADMIN_PREFIX),
    variables="OTTLA_REST_",
)
