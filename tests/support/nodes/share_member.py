"""A member of the share group `g` that reads the topic `t` of a broker in the test's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.share.share_partition_leader import SharePartitionLeader
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    initialize_share_group_state_request,
    share_acknowledge_request,
    share_fetch_request,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch_request import ShareFetchRequest
from ottla.protocol.record_batch import NewRecord
from support.nodes.in_process import RawClient, connect, create_topic

SETTINGS = {"share.coordinator.state.topic.num.partitions": "1"}
ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP_RESOURCE = 32


def initialize(
    broker: Broker, state_epoch: int = 1, start_offset: int = 0
) -> InitializeShareGroupStateRequest:
    data = initialize_share_group_state_request.PartitionData(
        partition=0, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_share_group_state_request.InitializeStateData(
        topic_id=broker.image.topics["t"].topic_id, partitions=[data]
    )
    return InitializeShareGroupStateRequest(group_id="g", topics=[topic])


async def prepare(broker: Broker, records: int = 4, configs: Mapping[str, str] | None = None) -> None:
    """A topic with records, a batch each, and the group's state."""
    await create_topic(broker, "t", configs=configs)
    answer = await broker.share_state.initialize(initialize(broker))
    assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    for _ in range(records):
        await append(broker)


async def append(broker: Broker) -> None:
    await broker.internal_appends.append_records("t", 0, [NewRecord(b"k", b"v", 0)])


async def fetch(
    client: RawClient, broker: Broker, epoch: int, member: str = "ann", max_wait_ms: int = 5_000
) -> Any:
    """The one partition's answer, None if it is not named; the error of the request as a whole."""
    request = ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=100,
        batch_size=100,
    )
    if epoch == 0:
        partition = share_fetch_request.FetchPartition(partition_index=0)
        topic_id = broker.image.topics["t"].topic_id
        request.topics = [share_fetch_request.FetchTopic(topic_id=topic_id, partitions=[partition])]
    answer: Any = await client.call(ApiKey.SHARE_FETCH, 2, request)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return answer.responses[0].partitions[0] if answer.responses else None


def offsets(data: Any) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in data.acquired_records]


async def acknowledge(
    client: RawClient, broker: Broker, epoch: int, first: int, last: int, kind: int = ACCEPT
) -> ErrorCode:
    batch = share_acknowledge_request.AcknowledgementBatch(
        first_offset=first, last_offset=last, acknowledge_types=[kind]
    )
    partition = share_acknowledge_request.AcknowledgePartition(
        partition_index=0, acknowledgement_batches=[batch]
    )
    topic = share_acknowledge_request.AcknowledgeTopic(
        topic_id=broker.image.topics["t"].topic_id, partitions=[partition]
    )
    request = ShareAcknowledgeRequest(
        group_id="g", member_id="ann", share_session_epoch=epoch, topics=[topic]
    )
    answer: Any = await client.call(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
    assert answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.responses[0].partitions[0].error_code)


def leaders(broker: Broker) -> list[SharePartitionLeader]:
    return broker.share_partitions.leaders()


async def set_group_config(broker: Broker, name: str, value: str) -> None:
    await set_config(broker, GROUP_RESOURCE, "g", name, value)


async def set_config(broker: Broker, resource_type: int, resource: str, name: str, value: str) -> None:
    """Change one setting of a group, a topic, or of all brokers."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    changed = AlterConfigsResource(resource_type=resource_type, resource_name=resource, configs=[config])
    client = await connect(broker)
    request = IncrementalAlterConfigsRequest(resources=[changed])
    answer: Any = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message
    client.close()
