"""The settings of `ottla rest`, by the names that Confluent's REST Proxy gives them.

Settings that begin with `client.`, `producer.`, `consumer.` or `admin.` go, without that prefix, to the Kafka
clients (librdkafka's names); `client.` to all of them.
"""

from __future__ import annotations

from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.web.settings import Setting, integer, optional_text, text

BOOTSTRAP_SERVERS: Final = Setting("bootstrap.servers", text, DEFAULT_BOOTSTRAP, "the cluster")
SCHEMA_REGISTRY_URL: Final = Setting(
    "schema.registry.url", text, "http://127.0.0.1:8081", "of one or more instances, by commas"
)
HOST_NAME: Final = Setting(
    "host.name", optional_text, None, "the host in URLs that answers hold (else the request's)"
)
INSTANCE_ID: Final = Setting(
    "id", optional_text, None, "of this proxy, a part of the ids of its consumer instances"
)
CONSUMER_REQUEST_TIMEOUT_MS: Final = Setting(
    "consumer.request.timeout.ms", integer(1), 1_000, "the longest time in which a read collects records"
)
CONSUMER_REQUEST_MAX_BYTES: Final = Setting(
    "consumer.request.max.bytes", integer(1), 64 << 20, "keys and values of one read"
)
CONSUMER_INSTANCE_TIMEOUT_MS: Final = Setting(
    "consumer.instance.timeout.ms", integer(1), 300_000, "after which an unused instance is removed"
)
CONSUMER_INSTANCES: Final = Setting(
    "ottla.consumer.instances", integer(1, 10_000), 200, "the most that live at a time"
)
FETCH_MIN_BYTES: Final = Setting(
    "fetch.min.bytes", integer(-1, 10_000_000), -1, "a read ends with so many bytes; -1: with its time"
)
RESPONSE_TIMEOUT_MS: Final = Setting(
    "api.v3.produce.response.timeout.ms", integer(1), 30_000, "for a record to be acknowledged"
)
ADMIN_TIMEOUT_MS: Final = Setting(
    "ottla.admin.timeout.ms", integer(100, 600_000), 30_000, "for the cluster to answer an admin request"
)
MAX_BODY_BYTES: Final = Setting(
    "ottla.max.body.bytes", integer(1_024, 1 << 30), 64 << 20, "one request, or one record of a stream"
)

CLIENT_PREFIXES: Final = ("client.", "producer.", "consumer.", "admin.")

SETTINGS: Final = (
    BOOTSTRAP_SERVERS,
    SCHEMA_REGISTRY_URL,
    HOST_NAME,
    INSTANCE_ID,
    CONSUMER_REQUEST_TIMEOUT_MS,
    CONSUMER_REQUEST_MAX_BYTES,
    CONSUMER_INSTANCE_TIMEOUT_MS,
    CONSUMER_INSTANCES,
    FETCH_MIN_BYTES,
    RESPONSE_TIMEOUT_MS,
    ADMIN_TIMEOUT_MS,
    MAX_BODY_BYTES,
)
