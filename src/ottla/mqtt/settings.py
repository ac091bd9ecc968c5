"""The settings of `ottla mqtt`; those that Confluent's MQTT Proxy has too have their names there.

Other settings that begin with `client.` or `producer.` go, without that prefix, to the Kafka client (in the
names of Java's clients or librdkafka's).
"""

from __future__ import annotations

from dataclasses import dataclass
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
    integer,
    long,
    password,
    string,
    string_list,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import merged
from ottla.config.validators import ListOf, between, not_empty
from ottla.metrics.settings import ENDPOINT_SETTINGS
from ottla.mqtt.core.connection import Limits
from ottla.mqtt.core.routing import KeyRule, Route, Routing, UnusableRoute
from ottla.mqtt.core.session import NEVER
from ottla.web import http_settings
from ottla.web.authentication_settings import AUTHENTICATION_SETTINGS, REALM, SKIP_PATHS
from ottla.web.errors import ServiceError
from ottla.web.front_settings import CORS_ORIGINS, HOSTS
from ottla.web.server import HttpAddress
from ottla.web.tls_settings import TLS_SETTINGS, base_name

DEFAULT_LISTEN: Final = "mqtt://127.0.0.1:1883"
SCHEMES: Final = ("mqtt", "mqtts", "ws", "wss")
WEB_SOCKETS: Final = frozenset({"ws", "wss"})

BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster.", not_empty, importance=HIGH
)
LISTENERS: Final = string_list(
    "listeners",
    (DEFAULT_LISTEN,),
    "Where clients connect, with commas between: host:port or mqtt://…, with TLS mqtts://…, over WebSocket "
    "ws://… and wss://….",
    ListOf(empty=False),
    importance=HIGH,
)
TOPICS: Final = string_list(
    "ottla.mqtt.topics",
    (),
    "Which Kafka topic messages go to, as FILTER=TOPIC with commas between: `sensors/#=readings`. The first "
    "filter that matches counts. --topic gives one.",
    importance=HIGH,
)
TOPIC_REGEX_LIST: Final = string_list(
    "topic.regex.list",
    (),
    "The same by regular expressions for whole topics, as TOPIC:EXPRESSION: `readings:sensors/.*`. Looked at "
    "behind the filters.",
    importance=HIGH,
)
KEY: Final = string(
    "ottla.mqtt.key",
    "topic",
    "The key of records: topic, client-id, level:N (the topic's Nth level from 1) or none. Messages of one "
    "key stay in their order.",
    not_empty,
)
PACKET_BYTES: Final = integer(
    "ottla.mqtt.packet.max.bytes",
    1 << 20,
    "The largest packet that a client may send.",
    between(256, 256 << 20),
)
RECEIVE_MAXIMUM: Final = integer(
    "ottla.mqtt.receive.maximum",
    100,
    "Messages of QoS 1 that one client may have under way.",
    between(1, 65_535),
)
TOPIC_ALIASES: Final = integer(
    "ottla.mqtt.topic.alias.maximum",
    32,
    "Topics that a client of MQTT 5 may give numbers to.",
    between(0, 65_535),
    importance=LOW,
)
KEEP_ALIVE_SECONDS: Final = integer(
    "ottla.mqtt.keep.alive.max.seconds",
    0,
    "The longest that clients of MQTT 5 may stay silent, whatever they ask for; 0: as they like.",
    between(0, 65_535),
)
CONNECT_TIMEOUT_MS: Final = integer(
    "ottla.mqtt.connect.timeout.ms",
    10_000,
    "How long a connection may take to its CONNECT.",
    between(100, 600_000),
    importance=LOW,
)
CONNECTIONS: Final = integer(
    "ottla.mqtt.connections.max", 20_000, "The most connections at a time.", between(1, 1_000_000)
)
SESSION_EXPIRY_SECONDS: Final = long(
    "ottla.mqtt.session.expiry.max.seconds",
    7 * 86_400,
    "The longest that a session outlives its connection, whatever its client asks for, and how long one of "
    "MQTT 3.1.1 does; 4294967295: for ever; 0: all sessions end with their connections.",
    between(0, NEVER),
)
SESSION_TOPIC: Final = string(
    "ottla.mqtt.session.topic",
    "_ottla_mqtt_sessions",
    "The compacted topic that keeps the sessions. It is made with the first one.",
    not_empty,
    importance=LOW,
)
SESSION_SHARDS: Final = integer(
    "ottla.mqtt.session.shards",
    8,
    "The partitions that the sessions' topic is made with, each with a transactional producer.",
    between(1, 1_000),
    importance=LOW,
)
COPIES_LISTEN: Final = string(
    "ottla.mqtt.copies.listen",
    "",
    "HOST:PORT where other copies of the proxy reach this one, in a network of their own: together they "
    "serve all clients, each client at one of them. Empty: there are no other copies.",
)
COPIES_ADDRESS: Final = string(
    "ottla.mqtt.copies.address",
    "",
    "HOST:PORT by which the others call that place. Empty: as it is there.",
)
COPIES_PASSWORD: Final[Setting[Password | None]] = password.optional(
    "ottla.mqtt.copies.password", "What all copies know, and nobody else."
)
UNDER_WAY_BYTES: Final = long(
    "ottla.mqtt.under.way.max.bytes",
    64 << 20,
    "Bytes of messages that wait for the cluster; with more, clients are read no further.",
    between(1 << 20, 1 << 40),
)

RETAINED_TOPIC: Final = string(
    "ottla.mqtt.retained.topic",
    "_ottla-mqtt-retained",
    "The compacted Kafka topic of retained messages, made where it is missing; all copies have the same. "
    "Empty: nothing is retained.",
)
RETAINED_BYTES: Final = long(
    "ottla.mqtt.retained.max.bytes",
    64 << 20,
    "Bytes of retained messages, about as they are in memory; with more, further ones are refused.",
    between(1 << 16, 1 << 40),
)

SYS_INTERVAL_SECONDS: Final = integer(
    "ottla.mqtt.sys.interval.seconds",
    10,
    "How often the topics under $SYS/ are published, mosquitto's sys_interval; 0: never, and there are none.",
    between(0, 86_400),
    importance=LOW,
)

CLIENT_PREFIX: Final = "client."
PRODUCER_PREFIX: Final = "producer."

TABLE: Final = Table(
    title="ottla mqtt",
    settings=by_name(
        (
            *globals().values(),
            *TLS_SETTINGS,
            *(each for each in AUTHENTICATION_SETTINGS if each not in (REALM, SKIP_PATHS)),
            CORS_ORIGINS,
            HOSTS,
            *ENDPOINT_SETTINGS,
        )
    ),
    prefixes=(CLIENT_PREFIX, PRODUCER_PREFIX),
    variables="OTTLA_MQTT_",
    base_name=base_name,
    unsupported=merged((http_settings.UNSUPPORTED, unsupported_properties((CLIENT_PREFIX, PRODUCER_PREFIX)))),
)


def addresses_of(settings: Settings) -> tuple[HttpAddress, ...]:
    """Where a service with these settings listens, at least one address. Raises ConfigError."""
    found: list[HttpAddress] = []
    for text in settings[LISTENERS]:
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "mqtt", text
        if scheme.lower() not in SCHEMES:
            raise settings.refusal(LISTENERS.name, f"{text!r} is not {', '.join(SCHEMES)}://HOST:PORT")
        try:
            parsed = HttpAddress.parse(rest)
        except ServiceError as problem:
            raise settings.refusal(LISTENERS.name, str(problem)) from None
        found.append(HttpAddress(parsed.host, parsed.port, scheme.lower(), scheme.lower()))
    return tuple(found)


def routing_of(settings: Settings) -> Routing:
    """Which Kafka topic messages go to. Raises ConfigError, for no topic at all too."""
    routes: list[Route] = []
    for setting, parse in ((TOPICS, Route.parse), (TOPIC_REGEX_LIST, Route.parse_expression)):
        for text in settings[setting]:
            try:
                routes.append(parse(text))
            except UnusableRoute as problem:
                raise settings.refusal(setting.name, str(problem)) from None
    if not routes:
        raise settings.refusal(
            TOPICS.name,
            "there is no topic to write to: give --topic 'FILTER=TOPIC', as in 'sensors/#=readings'",
        )
    return Routing(routes)


def key_rule_of(settings: Settings) -> KeyRule:
    """How records get their keys. Raises ConfigError."""
    try:
        return KeyRule.parse(settings[KEY])
    except UnusableRoute as problem:
        raise settings.refusal(KEY.name, str(problem)) from None


@dataclass(frozen=True, slots=True)
class CopiesOptions:
    """listen: where other copies reach this one. address: what they call that."""

    listen: HttpAddress
    address: str
    password: bytes

    @classmethod
    def of(cls, settings: Settings) -> CopiesOptions | None:
        """None for a copy that is alone. Raises ConfigError."""
        if not settings[COPIES_LISTEN]:
            return None
        try:
            listen = HttpAddress.parse(settings[COPIES_LISTEN])
            called = HttpAddress.parse(settings[COPIES_ADDRESS] or settings[COPIES_LISTEN])
        except ServiceError as problem:
            raise settings.refusal(COPIES_LISTEN.name, str(problem)) from None
        if not called.port or called.host_for_peers(None) != called.host:
            text = "the others need a host and a port to reach: say them in ottla.mqtt.copies.address"
            raise settings.refusal(COPIES_LISTEN.name, text)
        known = settings[COPIES_PASSWORD]
        if known is None or not known.value:
            raise settings.refusal(COPIES_PASSWORD.name, "the copies need a password that only they know")
        address = called.url.partition("://")[2]
        return cls(listen, address, known.value.encode())


def limits_of(settings: Settings) -> Limits:
    """What one client may do."""
    return Limits(
        settings[PACKET_BYTES],
        settings[RECEIVE_MAXIMUM],
        settings[TOPIC_ALIASES],
        settings[KEEP_ALIVE_SECONDS],
        bool(settings[RETAINED_TOPIC]),
        settings[SESSION_EXPIRY_SECONDS],
    )
