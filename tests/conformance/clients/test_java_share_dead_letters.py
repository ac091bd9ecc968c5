"""Dead letters of share groups (KIP-1191): one drawn story, with Java's share consumers, on ottla and on
Apache Kafka 4.4.0, and as a plain model tells it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.clients.confluent import (
    admin_client,
    consumer,
    create_topic,
    eventually,
    poll_messages,
    produce,
    topic_exists,
)
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.java.share_consumers import run_share_consumers
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

SEED = random.randrange(1 << 32)
LOCK_MS = 2_000
DELIVERIES = 2
GROUP, BROKER = 32, 4
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
REASONS = {
    "reject": (1, "Offset rejected by client."),
    "release": (DELIVERIES, "Offset delivery count exceeded the threshold."),
    "stuck": (DELIVERIES, "Offset delivery count exceeded the threshold."),
}
SERVER_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "num.partitions": "2",
    "log.message.timestamp.type": "LogAppendTime",
}

DEFAULT_TIMESTAMP_TYPE = SERVER_SETTINGS["log.message.timestamp.type"]
CREATE_TIME, LOG_APPEND_TIME = 1, 2
TOPIC_SOURCE = 1
TIMEOUT_S = 60
Record = dict[str, Any]


class Letter(NamedTuple):
    """A record of a queue, as it is compared."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_type: int


class Batch(NamedTuple):
    """Records that are produced together; `end` is that of their transaction, if they are in one."""

    partition: int
    records: list[Record]
    codec: str
    end: str


@dataclass
class Case:
    """A group with a topic of its own."""

    name: str
    partitions: int
    batches: list[Batch]
    settings: dict[str, str]
    queue: str = ""
    queue_partitions: int = 0
    """0: the queue is not made by the test."""
    queue_configs: Mapping[str, str] = field(default_factory=dict)
    gets_letters: bool = True


def draw_batches(draw: random.Random, partitions: int, kinds: Sequence[str]) -> list[Batch]:
    number = 0
    batches = []
    for _ in range(draw.randint(4, 8)):
        records: list[Record] = []
        for _ in range(draw.randint(1, 9)):
            number += 1
            value = f"{draw.choice(kinds)}-{number}-{'x' * draw.choice([0, 10, 1_000, 9_000])}"
            records.append(
                {
                    "value": value.encode(),
                    "key": draw.choice([None, b"", draw.randbytes(8), "k\N{SNOWMAN}".encode()]),
                    "headers": [("mine", b"x")] if draw.random() < 0.3 else [],
                }
            )
        codec = draw.choice(["none", "gzip", "lz4", "zstd", "snappy"])
        batches.append(
            Batch(draw.randrange(partitions), records, codec, draw.choice(["", "", "commit", "abort"]))
        )
    return batches


def draw_cases(draw: random.Random) -> tuple[list[Case], list[Case]]:
    """The cases before, and those after the automatic creation of queues is allowed."""
    usual = ("ok", "reject", "release")

    def case(name: str, kinds: Sequence[str] = usual, partitions: int | None = None, **settings: str) -> Case:
        partitions = partitions or draw.randint(1, 4)
        return Case(name, partitions, draw_batches(draw, partitions, kinds), settings)

    def key(name: str) -> str:
        return f"{name}-{draw.randrange(1 << 20)}"

    made = []
    for copy in ("true", "false"):
        each = case(key(f"copy-{copy}"))
        each.settings["errors.deadletterqueue.copy.record.enable"] = copy
        each.settings["share.isolation.level"] = draw.choice(["read_committed", "read_uncommitted"])
        each.queue, each.queue_partitions = f"dlq.{each.name}", draw.randint(1, 5)
        each.queue_configs = {
            **ENABLED,
            "message.timestamp.type": draw.choice(["CreateTime", "LogAppendTime"]),
        }
        made.append(each)
    small = case(key("small"))
    # Kafka copies no record of a compressed batch that unfolds to more than the queue takes at once.
    small.batches = [batch._replace(codec="none") for batch in small.batches]
    small.settings["errors.deadletterqueue.copy.record.enable"] = "true"
    small.queue, small.queue_partitions = f"dlq.{small.name}", 1
    small.queue_configs = {**ENABLED, "max.message.bytes": "2000"}
    created = case(key("created"))
    created.queue = f"dlq.{created.name}"
    stuck = Case(
        key("stuck"),
        1,
        [Batch(0, [{"value": b"stuck-1"}, {"value": b"stuck-2", "key": b"k"}], "none", "")],
        {
            "share.record.lock.duration.ms": str(LOCK_MS),
            "errors.deadletterqueue.copy.record.enable": "true",
        },
        f"dlq.{key('stuck')}",
        1,
        ENABLED,
    )
    prefix = case(key("prefix"))
    prefix.queue, prefix.queue_partitions, prefix.queue_configs = f"letters.{prefix.name}", 1, ENABLED
    closed = case(key("closed"))
    closed.queue, closed.queue_partitions = f"dlq.{closed.name}", 1
    missing = case(key("missing"))
    missing.queue = f"dlq.{missing.name}"
    for each in (prefix, closed, missing):
        each.gets_letters = False
    return [missing], [*made, small, created, stuck, prefix, closed]


# -- playing it -----------------------------------------------------------------------------------------


def alter(bootstrap: str, resource_type: int, name: str, values: Mapping[str, str]) -> tuple[ErrorCode, str]:
    configs = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    with WireClient.connect(bootstrap) as wire:
        answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
    return ErrorCode(answer.error_code), answer.error_message or ""


def described(bootstrap: str, group: str) -> list[list[str]]:
    """The rows of kafka-share-groups --describe."""
    done = run_java(GROUP_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()][1:]


class Placed(NamedTuple):
    """A record where it was produced."""

    partition: int
    offset: int
    end: str
    record: Record


def prepare(bootstrap: str, case: Case) -> list[Placed]:
    """Make the topics, the group and the records."""
    create_topic(bootstrap, case.name, case.partitions)
    if case.queue_partitions:
        create_topic(bootstrap, case.queue, case.queue_partitions, case.queue_configs)
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.assignment.interval.ms": "0",
        "share.delivery.count.limit": str(DELIVERIES),
        "errors.deadletterqueue.topic.name": case.queue,
        **case.settings,
    }
    assert alter(bootstrap, GROUP, case.name, settings) == (ErrorCode.NONE, "")
    placed = []
    for number, batch in enumerate(case.batches):
        records = [{**record, "partition": batch.partition} for record in batch.records]
        if batch.end:
            offsets = produce_transaction(bootstrap, case.name, records, batch, f"{case.name}-{number}")
        else:
            delivered = produce(bootstrap, case.name, records, compression_type=batch.codec)
            offsets = [message.offset() or 0 for message in delivered]
        placed += [
            Placed(batch.partition, offset, batch.end, record)
            for offset, record in zip(sorted(offsets), batch.records, strict=True)
        ]
    return placed


def produce_transaction(
    bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], batch: Batch, name: str
) -> list[int]:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "compression.type": batch.codec}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    offsets: list[int] = []
    for record in records:
        producer.produce(topic, on_delivery=lambda _, message: offsets.append(message.offset()), **record)
    producer.flush(TIMEOUT_S)
    if batch.end == "commit":
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
    return offsets


def consume(bootstrap: str, cases: Sequence[Case]) -> None:
    """Have a consumer of each group at work until there are no records any more."""
    names = [case.name for case in cases]
    run_share_consumers(bootstrap, names, names, count=len(names), hold_ms=2 * LOCK_MS, idle_ms=5 * LOCK_MS)


def expected(case: Case, placed: Sequence[Placed], queue_partitions: int) -> list[Letter]:
    """The letters of a case, by the rules of the KIP alone."""
    copies = case.settings.get("errors.deadletterqueue.copy.record.enable") == "true"
    max_bytes = int(case.queue_configs.get("max.message.bytes", 1 << 20))
    committed_only = case.settings.get("share.isolation.level") == "read_committed"
    letters = []
    for partition, offset, end, record in placed:
        value = record["value"]
        kind = value.split(b"-")[0].decode()
        if kind not in REASONS or (end == "abort" and committed_only) or not case.gets_letters:
            continue
        count, reason = REASONS[kind]
        has_copy = copies and len(value) + 300 < max_bytes
        texts = {
            "topic": case.name,
            "partition": str(partition),
            "offset": str(offset),
            "group": case.name,
            "delivery.count": str(count),
            "message": reason,
        }
        letters.append(
            Letter(
                partition % queue_partitions,
                record.get("key") if has_copy else None,
                value if has_copy else None,
                tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items()),
                LOG_APPEND_TIME
                if case.queue_configs.get("message.timestamp.type", DEFAULT_TIMESTAMP_TYPE) == "LogAppendTime"
                and case.queue_partitions
                else CREATE_TIME,
            )
        )
    return sorted(letters, key=repr)


def read_queue(bootstrap: str, case: Case, began_ms: int) -> list[Letter]:
    """All that is in a queue; the times are those of its writing."""
    if not topic_exists(bootstrap, case.queue):
        return []
    partitions = admin_client(bootstrap).list_topics(case.queue, TIMEOUT_S).topics[case.queue].partitions
    with consumer(bootstrap, "reader") as client:
        places = [TopicPartition(case.queue, partition, 0) for partition in partitions]
        count = sum(client.get_watermark_offsets(place, TIMEOUT_S)[1] for place in places)
        client.assign(places)
        messages = poll_messages(client, count)
    for message in messages:
        assert began_ms <= message.timestamp()[1] <= int(time.time() * 1000)
    return sorted(
        (
            Letter(
                message.partition() or 0,
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
                message.timestamp()[0],
            )
            for message in messages
        ),
        key=repr,
    )


def own_configs(bootstrap: str, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = admin_client(bootstrap).describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: each.value for name, each in found.items() if each.source == TOPIC_SOURCE}


def play(bootstrap: str, phases: Sequence[Sequence[Case]]) -> dict[str, object]:
    """Play all cases; what is to be compared."""
    began_ms = int(time.time() * 1000)
    told: dict[str, object] = {
        "refused": alter(bootstrap, GROUP, "g", {"errors.deadletterqueue.topic.name": "__letters"})
    }
    for phase in phases:
        placed = {case.name: prepare(bootstrap, case) for case in phase}
        consume(bootstrap, phase)
        for case in phase:
            partitions = case.queue_partitions or int(SERVER_SETTINGS["num.partitions"])
            letters = expected(case, placed[case.name], partitions)
            eventually(
                lambda case=case, letters=letters: len(read_queue(bootstrap, case, began_ms)) >= len(letters),  # type: ignore[misc]
                f"{len(letters)} letters in {case.queue}",
            )
            found = read_queue(bootstrap, case, began_ms)
            assert found == letters, case.name
            told[case.name] = found
            used = {str(each.partition) for each in placed[case.name]}
            left = {row[2]: row[-1] for row in described(bootstrap, case.name) if row[2] in used}
            assert left == dict.fromkeys(used, "0"), "nothing is left to deliver"
        assert alter(bootstrap, BROKER, "", {AUTO_CREATE: "true"}) == (ErrorCode.NONE, "")
    for case in phases[-1]:
        if not case.queue_partitions:
            told["created"] = own_configs(bootstrap, case.queue)
    return told


def test_the_same_letters_as_apache_kafka(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    phases = draw_cases(random.Random(SEED))
    with OttlaBroker.start(tmp_path / "ottla", settings=SERVER_SETTINGS) as ours:
        told = play(ours.bootstrap, phases)
    assert told["created"] == {**ENABLED, "message.timestamp.type": "CreateTime"}
    with ApacheKafka.start(tmp_path / "kafka", settings=SERVER_SETTINGS) as kafka:
        assert play(kafka.bootstrap, phases) == told
