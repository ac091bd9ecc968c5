"""Reads all records of a topic."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Message, TopicPartition

from support.clients.confluent import TIMEOUT_S


def read_everything(bootstrap: str, topic: str) -> list[Message]:
    """The records of all partitions up to their ends now, in each partition's order. Bounded by TIMEOUT_S."""
    client = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "whole-topics", "enable.auto.commit": False}
    )
    try:
        partitions = client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        ends = {
            number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
            for number in partitions
        }
        client.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
        missing = sum(high - low for low, high in ends.values())
        found: list[Message] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < missing:
            assert time.monotonic() < deadline, f"{len(found)} records of {missing}"
            for message in client.consume(missing - len(found), timeout=0.2):
                assert message.error() is None, message.error()
                found.append(message)
        return found
    finally:
        client.close()
