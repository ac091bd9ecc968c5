"""The settings of `ottla rest`, by the names that Confluent's REST Proxy gives them.

Other settings that begin with `client.`, `producer.`, `consumer.` or `admin.` go, without that prefix, to the
Kafka clients (in the names of Java's clients or librdkafka's); `client.` to all of them.
"""

from __future__ import annotations

import enum
from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import (
    HIGH,
    LOW,
    Password,
    Setting,
    Table,
    by_name,
    choice,
    integer,
    long,
    password,
    string,
    string_list,
    text_or_none,
)
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import ListOf, at_least, between, not_empty
from ottla.web import http_settings
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name


class PropagateMethod(enum.StrEnum):
    """How callers' identities go on to the cluster, in the words of Confluent's proxy."""

    JETTY_AUTH = "JETTY_AUTH"
    SSL = "SSL"


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
SCHEMA_REGISTRY_USER_INFO: Final[Setting[Password | None]] = password.optional(
    "schema.registry.basic.auth.user.info",
    "The proxy's own user at the registry, as name:password.",
)
SCHEMA_REGISTRY_TOKEN: Final[Setting[Password | None]] = password.optional(
    "schema.registry.bearer.auth.token", "The token with which the proxy asks the registry."
)
SCHEMA_REGISTRY_TRUSTSTORE: Final = text_or_none(
    "schema.registry.ssl.truststore.location",
    None,
    "The authorities of the registry's certificate, in PEM; none: those of the system.",
)
SCHEMA_REGISTRY_KEYSTORE: Final = text_or_none(
    "schema.registry.ssl.keystore.location",
    None,
    "The certificate and the key that the proxy shows to the registry, in PEM.",
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
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
RECORD_FIELDS: Final[Setting[tuple[str, ...]]] = string_list(
    "ottla.consumer.record.fields",
    (),
    "The fields of records in the answers of API v2, beside those that Confluent's proxy gives; a read may "
    "ask for them too, with ?include=timestamp,headers.",
    ListOf(("timestamp", "headers")),
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
AUDIT_TIER: Final = text_or_none(
    "ottla.audit.tier",
    None,
    "The tier of the audit to which the proxy's producer reports what it sends; without one it does not.",
    importance=LOW,
)

PROPAGATE_METHOD: Final[Setting[PropagateMethod | None]] = choice(PropagateMethod).optional(
    "confluent.rest.auth.propagate.method",
    "JETTY_AUTH: requests act towards the cluster as their callers, whose names and passwords "
    "(authentication.method=BASIC) go to the brokers by client.sasl.mechanism. Without it they act as the "
    "proxy itself, by the settings of `client.`.",
)
CALLERS: Final = integer(
    "ottla.rest.callers",
    64,
    "The most callers that have clients of their own at a time.",
    between(1, 10_000),
    importance=LOW,
)
CALLER_IDLE_MS: Final = long(
    "ottla.rest.caller.idle.ms",
    300_000,
    "A caller's clients are ended when it was idle for this time.",
    at_least(1_000),
    importance=LOW,
)

CLIENT_PREFIX: Final = "client."
CONSUMER_PREFIX: Final = "consumer."
PRODUCER_PREFIX: Final = "producer."
ADMIN_PREFIX: Final = "admin."

_NO_IMPERSONATION: Final = (
    "callers act as themselves by confluent.rest.auth.propagate.method=JETTY_AUTH alone: leave it out"
)

UNSUPPORTED: Final = merged(
    (
        http_settings.UNSUPPORTED,
        unsupported_properties((CLIENT_PREFIX, CONSUMER_PREFIX, PRODUCER_PREFIX, ADMIN_PREFIX)),
        refusing(
            "classes of plugins can't be loaded, so whatever it protects would be open: leave it out",
            "kafka.rest.resource.extension.class",
            "resource.extension.class",
        ),
        refusing(_NO_IMPERSONATION, "confluent.rest.auth.", "confluent.basic.auth."),
        refusing(
            "paths can't be blocked: let a proxy do that, and leave this out",
            "api.endpoints.blocklist",
            "api.endpoints.allowlist",
            "api.endpoints.blacklist",
            "api.endpoints.whitelist",
        ),
        refusing(
            "both APIs are always there: leave it out", "api.v2.enable", "api.v3.enable", nothing=("true",)
        ),
        refusing(
            "there are no limits on the rate of records: let a proxy set them, and leave this out",
            "api.v3.produce.rate.limit.enabled",
            nothing=("false",),
        ),
        refusing(
            "of the settings of the registry's clients only those above are known: leave it out",
            "schema.registry.basic.auth.",
            "schema.registry.bearer.auth.",
            "schema.registry.ssl.",
            "schema.registry.proxy.",
            nothing=("url", "user_info", "static_token", "pem"),
        ),
        refusing(
            "its bound is ottla.max.body.bytes: leave it out",
            "api.v3.produce.request.size.limit.max.bytes",
            nothing=("0",),
        ),
        harmless(
            "records and requests are bounded in another way than by Confluent's proxy",
            "api.v3.produce.",
            "consumer.threads",
            "consumer.iterator.timeout.ms",
            "consumer.iterator.backoff.ms",
            "producer.threads",
            "simpleconsumer.",
            "max.poll.records",
            "streaming.connection.max.duration.ms",
            "streaming.connection.max.duration.grace.period.ms",
        ),
        harmless("ZooKeeper is not asked", "zookeeper.connect", "zookeeper."),
        harmless("URLs in answers are those of the request, or of host.name", "advertised.listeners"),
        harmless(
            "of the Java proxy",
            "client.timeout.ms",
            "client.init.timeout.ms",
            "confluent.resource.name.authority",
            "null.request.body.always.publishes.empty.record",
            "schema.registry.cache.",
            "auto.register.schemas",
            nothing=("false",),
        ),
    )
)
"""Settings of Confluent's REST Proxy that have no effect here."""

TABLE: Final = Table(
    title="ottla rest",
    settings=by_name((*globals().values(), *FRONT_SETTINGS)),
    prefixes=(CLIENT_PREFIX, CONSUMER_PREFIX, PRODUCER_PREFIX, ADMIN_PREFIX),
    variables="OTTLA_REST_",
    base_name=base_name,
    unsupported=UNSUPPORTED,
)
