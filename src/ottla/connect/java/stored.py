"""Which connectors a Java worker's group has, read from its topic without a Java worker."""

from __future__ import annotations

from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError
from ottla.client.reading import read, reader

TIMEOUT_SECONDS: Final = 10.0
_CONNECTOR: Final = "connector-"


def stored_connectors(access: ClusterAccess, topic: str) -> set[str]:
    """The names of the connectors in a topic of connect-configs; empty without the topic.

    Blocks. Raises ClusterError, ClientOptionError.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    consumer = reader(access)
    try:
        found = consumer.list_topics(topic, TIMEOUT_SECONDS).topics[topic]
        if found.error is not None:
            if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return set()
            raise ClusterError(f"cannot read {topic} at {access.bootstrap}: {found.error}")
        begin, end = {}, {}
        for partition in found.partitions:
            bounds = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_SECONDS)
            begin[partition], end[partition] = bounds
    except KafkaException as problem:
        raise ClusterError(f"cannot read {topic} at {access.bootstrap}: {problem.args[0]}") from problem
    finally:
        consumer.close()
    names = set()
    for message in read(access, topic, begin, end):
        key = (message.key() or b"").decode(errors="replace")
        if key.startswith(_CONNECTOR):
            name = key.removeprefix(_CONNECTOR)
            if message.value() is None:
                names.discard(name)
            else:
                names.add(name)
    return names
