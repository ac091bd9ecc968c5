"""The topics of the coordinators and the metadata log: requests that clients may make, and refusals."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import incremental_alter_configs_request as incremental
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, batch, wait_for

GROUPS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
METADATA = "__cluster_metadata"
COORDINATORS = {GROUPS: (0, "a-group"), TRANSACTIONS: (1, "a-txn"), SHARES: (2, f"g:{'A' * 22}:0")}
TOPIC = 2


def delete_records(*wanted: tuple[str, int, int]) -> DeleteRecordsRequest:
    """Topic, partition, offset; a topic that is named twice is named once in the request."""
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for topic, partition, offset in wanted:
        topics.setdefault(topic, []).append(DeleteRecordsPartition(partition_index=partition, offset=offset))
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()],
        timeout_ms=5000,
    )


def produce(
    topic: str, *, partition: int = 0, acks: int = -1, records: bytes | None = None
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch() if records is None else records)
    return ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def alter(topic: str, **configs: str) -> incremental.IncrementalAlterConfigsRequest:
    each = [
        incremental.AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=each)
    return incremental.IncrementalAlterConfigsRequest(resources=[resource])


def without_offsets(response: Any) -> None:
    """Offsets and times of coordinators' records are not compared."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.offset = partition.timestamp = -1


def make_all(wire: WireClient) -> None:
    for topic, (key_type, key) in COORDINATORS.items():
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        wait_for(lambda find=find: wire.call(find).coordinators[0].error_code == ErrorCode.NONE)
        wait_for(
            lambda topic=topic: all(p.leader_id >= 0 for p in wire.topic_metadata(topic).topics[0].partitions)
        )


def test_internal_topics(
    start_own: Callable[..., AbstractContextManager[Any]], request: pytest.FixtureRequest
) -> None:
    with start_own() as node, WireClient.connect(node.bootstrap) as wire:
        talk = Transcript(wire, f"t{uuid.uuid4().hex[:12]}")
        me = talk.prefix
        talk.title("before they are there")
        for topic in (*COORDINATORS, METADATA):
            talk.say(delete_records((topic, 0, -1)))
            talk.say(produce(topic), 12)
        make_all(wire)
        wire.create_topic(me, partitions=2)
        wire.create_topic(f"{me}-compacted", config={"cleanup.policy": "compact"})
        for _ in range(3):
            wire.produce(me, 0, batch(2))
        topics = [*COORDINATORS, METADATA]

        talk.title("no records are deleted, whatever is wrong besides")
        for topic in topics:
            talk.say(delete_records(*((topic, 0, offset) for offset in (-1,))))
            for partition, offset in ((0, 0), (0, -5), (0, 10**9), (99, 0), (-1, 0)):
                talk.say(delete_records((topic, partition, offset)))
        for version in (0, 1, 2):
            talk.say(delete_records((SHARES, 0, -1)), version)
        talk.say(
            delete_records((GROUPS, 0, 0), (me, 0, 3), (me, 1, -2), (SHARES, 0, 0), (f"{me}-compacted", 0, 0))
        )
        talk.say(delete_records((f"{me}-compacted", 0, 10**9), (f"{me}-compacted", 0, -5)))
        twice = delete_records((me, 0, 4), (me, 1, 0), (me, 0, 10**9), (me, 1, -1))
        twice.topics += delete_records((me, 0, 5)).topics
        talk.say(twice)
        talk.say(delete_records((f"{me}-compacted", 7, 0), (me, 7, 10**9), (f"{me}-none", 0, -7)))
        for topic in COORDINATORS:
            talk.title(f"{topic} is compacted and deleted, and its records are still not to be deleted")
            talk.say(alter(topic, cleanup_policy="delete"))
            talk.say(delete_records((topic, 0, 0)))
        talk.title("where they begin")
        for topic in topics:
            earliest = ListOffsetsPartition(partition_index=0, timestamp=-2)
            asked = ListOffsetsTopic(name=topic, partitions=[earliest])
            talk.say(ListOffsetsRequest(topics=[asked]), 8, keep=without_offsets)

        talk.title("ordinary clients write nothing there")
        for topic in topics:
            talk.say(produce(topic), 12)
            talk.say(produce(topic, acks=7), 12)
            talk.say(produce(topic, partition=99), 12)
        with WireClient.connect(node.bootstrap, client_id="__admin_client") as admin:
            as_admin = Transcript(admin, me)
            as_admin.title("the client id of the administration may")
            for topic in (GROUPS, METADATA):
                as_admin.say(produce(topic, partition=1), 12, keep=without_base_offsets)
            talk.lines += as_admin.lines

        talk.title("transactions")
        coordinator_ready(wire, me)
        producer = TransactionalProducer(wire, me)
        assert producer.initialise() is ErrorCode.NONE
        for topic in topics:
            talk.lines.append(f"add {topic}: {producer.add_partitions(topic)[0].name}")
            talk.lines.append(f"produce to {topic}: {producer.produce(topic, b'x').name}")
            talk.lines.append(f"abort: {ErrorCode(_settled_end(producer)).name}")

        talk.title("settings, partitions")
        for topic in topics:
            talk.say(alter(topic, retention_ms="1000"))
            counted = CreatePartitionsTopic(name=topic, count=51)
            talk.say(CreatePartitionsRequest(topics=[counted], timeout_ms=5000))
        talk.title("made again, deleted")
        for topic in topics:
            new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
            talk.say(CreateTopicsRequest(topics=[new], timeout_ms=5000))
            talk.say(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000))
        talk.title("metadata")
        talk.say(
            MetadataRequest(topics=[MetadataRequestTopic(name=METADATA)], allow_auto_topic_creation=True)
        )
        talk.check("internal_topics", bool(request.config.getoption("--record")))


def without_base_offsets(response: Any) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.base_offset = -1


def _settled_end(producer: TransactionalProducer) -> int:
    answers: list[int] = []

    def ended() -> bool:
        answers.append(int(producer.end(committed=False).error_code))
        return answers[-1] != ErrorCode.CONCURRENT_TRANSACTIONS

    wait_for(ended)
    return answers[-1]
