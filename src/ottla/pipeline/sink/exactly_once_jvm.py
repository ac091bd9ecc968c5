"""The exactly-once sink in Spark's JVM: the options of a query's writer, as its tasks read them.

ExactlyOnceKafka.java writes the units as exactly_once_writer.py does, with Java's producer in Spark's own
tasks: no Python process takes part, and rows do not travel to one. Both keep the same ledger, so that a query
may be written by one today and by the other tomorrow. Python writes where the JVM lacks the classes (Spark
Connect, a session that ottla did not start), and where a client option has no counterpart in Java's client.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.pipeline.sink.exactly_once_ledger import ledger_topic
from ottla.pipeline.sink.exactly_once_settings import (
    CLASSES_PROPERTY,
    SECRET_CLIENT_OPTION_PREFIX,
    SinkSettings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_FORMAT: Final = "ottla.pipeline.ExactlyOnceKafka"
_PRODUCER: Final = "producer."
_PRODUCER_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "compression.type": "lz4",
        # A commit sends what waits, so lingering costs a batch's latency nothing.
        "linger.ms": "20",
        "batch.size": "262144",
        "max.request.size": "104857600",
    }
)
# librdkafka's names of settings of producers, by Java's.
_PRODUCER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acks": "acks",
        "batch.size": "batch.size",
        "compression.codec": "compression.type",
        "compression.type": "compression.type",
        "delivery.timeout.ms": "delivery.timeout.ms",
        "linger.ms": "linger.ms",
        "message.max.bytes": "max.request.size",
        "message.timeout.ms": "delivery.timeout.ms",
        "queue.buffering.max.ms": "linger.ms",
        "request.required.acks": "acks",
    }
)


def jvm_options(spark: SparkSession, settings: SinkSettings) -> dict[str, str] | None:
    """The options of the JVM's sink; None where Python has to write."""
    if getattr(spark, "_jvm", None) is None or spark.conf.get(CLASSES_PROPERTY, None) is None:
        return None
    return java_options(settings)


def java_options(settings: SinkSettings) -> dict[str, str] | None:
    """The options as SinkOptions.java reads them; None if Java's client lacks one of the client options."""
    common: dict[str, str] = {}
    producer = dict(_PRODUCER_DEFAULTS)
    for name, value in settings.client_options.items():
        if name in _PRODUCER_NAMES:
            producer[_PRODUCER_NAMES[name]] = str(value)
        else:
            common[name] = value
    try:
        client = ClusterAccess(settings.bootstrap, common).java()
    except ClientOptionError:
        return None
    return {
        "ottla.bootstrap": settings.bootstrap,
        "ottla.query": settings.query_name,
        "ottla.identity": settings.identity.value,
        "ottla.topic": settings.topic,
        "ottla.ledger": ledger_topic(settings.query_name),
        "ottla.transaction.timeout.ms": str(settings.transaction_timeout_ms),
        **{SECRET_CLIENT_OPTION_PREFIX + name: value for name, value in client.items()},
        **{_PRODUCER + name: value for name, value in producer.items()},
    }
