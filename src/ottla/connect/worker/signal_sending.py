"""Gives a running connector a signal: a record of its signal topic, which is there when this returns.

So a signal that was taken is not lost, wherever the connector's task runs, and if it does not run now.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.config.settings import Settings
from ottla.connect.cdc.core.signals import MAX_CHARACTERS, BadSignal, signal_of_fields
from ottla.connect.cdc.signalling.settings import (
    CHANNELS,
    KAFKA,
    TOPIC,
    signal_access,
    signal_topic,
)
from ottla.connect.host.messages import Start
from ottla.connect.host.settings import plugin_settings
from ottla.connect.plugins.catalog import Plugin

PREFIX: Final = "topic.prefix"
TIMEOUT_SECONDS: Final = 30.0
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.", "https.", "enable.ssl.")


class NotTaken(Exception):
    """The connector takes no such signals."""


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that is in its topic."""

    id: str
    topic: str
    offset: int


def send_signal(plugin: Plugin, start: Start, body: Any) -> SentSignal:
    """Give a connector a signal, {"type": …, "data": {…}}, with an id or without.

    Raises BadSignal, NotTaken, ClusterError; ConfigError for settings that can't be.
    """
    text, id = _checked(body)
    table = plugin.load().TABLE
    if table.find(TOPIC.name) is None:
        raise NotTaken(f"connectors of class {plugin.names[0]} take no signals")
    settings = plugin_settings(table, start)
    prefix = start.config.get(PREFIX, "")
    if KAFKA not in settings[CHANNELS]:
        raise NotTaken(f"it takes no signals from its topic: set {CHANNELS.name} to source,{KAFKA}")
    access, topic = _producing(settings), signal_topic(settings, prefix)
    cluster = KafkaCluster(access.bootstrap, dict(access.properties))
    if cluster.missing_topics([topic]):
        cluster.ensure_topics([Topic(topic, 1)])
    return SentSignal(id, topic, _produce(access, topic, prefix, text))


def _checked(body: Any) -> tuple[str, str]:
    """The signal's text and id. Raises BadSignal."""
    if not isinstance(body, Mapping):
        raise BadSignal('a signal is an object like {"type": "pause-snapshot", "data": {}}')
    unknown = [name for name in body if name not in ("id", "type", "data")]
    if unknown:
        raise BadSignal(f"a signal has id, type and data, not {', '.join(map(str, unknown))[:200]}")
    id, type, data = body.get("id"), body.get("type"), body.get("data")
    id = str(uuid.uuid4()) if id is None else str(id)
    data = {} if data is None else data
    signal_of_fields(id, type if isinstance(type, str) else None, data)
    text = json.dumps({"id": id, "type": type, "data": data})
    if len(text) > MAX_CHARACTERS:
        raise BadSignal(f"a signal has at most {MAX_CHARACTERS} characters")
    return text, id


def _producing(settings: Settings) -> ClusterAccess:
    """The topic's cluster, without what is for consumers alone."""
    access = signal_access(settings)
    secured = {name: text for name, text in access.properties.items() if name.startswith(_SECURITY)}
    return ClusterAccess(access.bootstrap, secured)


def _produce(access: ClusterAccess, topic: str, key: str, text: str) -> int:
    problems: list[KafkaError] = []
    offsets: list[int] = []

    def delivered(problem: KafkaError | None, message: Message) -> None:
        if problem is not None:
            problems.append(problem)
        else:
            offsets.append(message.offset() or 0)

    settings = access.librdkafka({"acks": "all", "enable.idempotence": True, "log_level": 2})
    client = Producer(settings)
    try:
        client.produce(topic, text.encode(), key.encode(), 0, on_delivery=delivered)
        client.flush(TIMEOUT_SECONDS)
    except KafkaException as problem:
        raise ClusterError(f"the signal is not in topic {topic}: {problem.args[0].str()}") from problem
    finally:
        client.purge()
    if not offsets:
        reason = problems[0].str() if problems else "the cluster does not answer"
        raise ClusterError(f"the signal is not in topic {topic}: {reason}")
    return offsets[0]
