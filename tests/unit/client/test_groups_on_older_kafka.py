"""Groups and transactions in the versions of Apache Kafka 3.9: requests are written, answers are read."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.groups.changes import commit_offsets, delete_groups, delete_offsets, remove_member
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupMember, GroupType
from ottla.client.groups.survey import SurveyedGroup, survey
from ottla.client.transactions import (
    abort_in_partition,
    describe_producers,
    describe_transactions,
    force_terminate,
    list_transactions,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_groups_response as described
from ottla.protocol.messages import offset_fetch_response as fetched_offsets
from ottla.protocol.messages import write_txn_markers_response as marked
from ottla.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.messages.list_transactions_response import TransactionState as ListedState
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.scripted_cluster import ScriptedCluster, scripted_cluster

#: Of the APIs that changed after Apache Kafka 3.9; (0, -1) is one that it does not have.
VERSIONS_OF_3_9 = {
    ApiKey.METADATA: (0, 12),
    ApiKey.LIST_OFFSETS: (0, 9),
    ApiKey.FETCH: (0, 17),
    ApiKey.FIND_COORDINATOR: (0, 5),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0),
    ApiKey.OFFSET_FETCH: (0, 9),
    ApiKey.OFFSET_COMMIT: (0, 9),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.WRITE_TXN_MARKERS: (0, 1),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.SHARE_GROUP_DESCRIBE: (0, -1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, -1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, -1),
}
PLACE = TopicPartition("orders", 0)
RECORD_MS = 1_700_000_000_000
Story = Callable[[ClusterRequests, ScriptedCluster], Awaitable[None]]


def answers(cluster: ScriptedCluster) -> dict[ApiKey, Callable[[Any], Any]]:
    def coordinators(request: Any) -> FindCoordinatorResponse:
        port = cluster.ports[1]
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="127.0.0.1", port=port)
                for key in request.coordinator_keys
            ]
        )

    member = described.DescribedGroupMember(member_id="m", client_id="c", client_host="/h")
    classic = described.DescribedGroup(
        group_id="old", group_state="Stable", protocol_type="connect", protocol_data="p", members=[member]
    )
    gone = described.DescribedGroup(group_id="gone", group_state="Dead")
    modern = DescribedGroup(group_id="new", group_state="Empty", assignor_name="uniform")
    committed = [
        fetched_offsets.OffsetFetchResponseTopics(
            name="orders",
            partitions=[
                fetched_offsets.OffsetFetchResponsePartitions(
                    partition_index=0, committed_offset=2, metadata=""
                )
            ],
        )
    ]
    batch = encode_batch([NewRecord(None, b"v", RECORD_MS + number) for number in range(4)])
    place = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
    topic_id = uuid.UUID(int=9)
    return {
        ApiKey.METADATA: lambda _: cluster.metadata(
            topics=[MetadataResponseTopic(name="orders", topic_id=topic_id, partitions=[place])]
        ),
        ApiKey.FIND_COORDINATOR: coordinators,
        ApiKey.LIST_GROUPS: lambda _: ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id="old", protocol_type="connect", group_state="Stable", group_type="Classic"
                ),
                ListedGroup(
                    group_id="new", protocol_type="consumer", group_state="Empty", group_type="Consumer"
                ),
            ]
        ),
        ApiKey.DESCRIBE_GROUPS: lambda request: described.DescribeGroupsResponse(
            groups=[one for one in (classic, gone) if one.group_id in request.groups]
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: lambda _: ConsumerGroupDescribeResponse(groups=[modern]),
        ApiKey.OFFSET_FETCH: lambda request: fetched_offsets.OffsetFetchResponse(
            groups=[
                fetched_offsets.OffsetFetchResponseGroup(group_id=one.group_id, topics=committed)
                for one in request.groups
            ]
        ),
        ApiKey.LIST_OFFSETS: lambda _: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(name="orders", partitions=[ListOffsetsPartitionResponse(offset=4)])
            ]
        ),
        ApiKey.FETCH: lambda _: FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic_id=topic_id,
                    partitions=[PartitionData(high_watermark=4, log_start_offset=0, records=batch)],
                )
            ]
        ),
        ApiKey.OFFSET_COMMIT: lambda _: OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name="orders", partitions=[OffsetCommitResponsePartition()])]
        ),
        ApiKey.OFFSET_DELETE: lambda _: OffsetDeleteResponse(
            topics=[OffsetDeleteResponseTopic(name="orders", partitions=[OffsetDeleteResponsePartition()])]
        ),
        ApiKey.DELETE_GROUPS: lambda request: DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name) for name in request.groups_names]
        ),
        ApiKey.LEAVE_GROUP: lambda _: LeaveGroupResponse(),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda _: ConsumerGroupHeartbeatResponse(),
        ApiKey.LIST_TRANSACTIONS: lambda _: ListTransactionsResponse(
            transaction_states=[
                ListedState(transactional_id=name, producer_id=7, transaction_state="Ongoing")
                for name in ("orders-1", "other")
            ]
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: lambda request: DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(transactional_id=name, transaction_state="Ongoing")
                for name in request.transactional_ids
            ]
        ),
        ApiKey.DESCRIBE_PRODUCERS: lambda _: DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name="orders", partitions=[PartitionResponse(active_producers=[ProducerState()])]
                )
            ]
        ),
        ApiKey.WRITE_TXN_MARKERS: lambda _: marked.WriteTxnMarkersResponse(
            markers=[
                marked.WritableTxnMarkerResult(
                    topics=[
                        marked.WritableTxnMarkerTopicResult(
                            name="orders", partitions=[marked.WritableTxnMarkerPartitionResult()]
                        )
                    ]
                )
            ]
        ),
        ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdResponse(producer_id=9, producer_epoch=4),
    }


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def run(story: Story, versions: dict[ApiKey, tuple[int, int]]) -> None:
    async def whole() -> None:
        async with scripted_cluster(1, versions) as cluster:
            for key, answer in answers(cluster).items():
                cluster.handlers[key] = lambda node, body, answer=answer: answer(body)
            requests = ClusterRequests(cluster.access)
            try:
                await story(requests, cluster)
            finally:
                await requests.close()

    asyncio.run(whole())


@pytest.mark.parametrize("versions", [VERSIONS_OF_3_9, {}], ids=["3.9", "newest"])
def test_every_request_about_groups_is_understood(versions: dict[ApiKey, tuple[int, int]]) -> None:
    async def story(requests: ClusterRequests, _: ScriptedCluster) -> None:
        listed = {one.group_id: one.type for one in await list_groups(requests, ["stable", "empty"])}
        assert listed == {"old": GroupType.CLASSIC, "new": GroupType.CONSUMER}
        begun_ms = now_ms()
        found = await survey(requests, {**listed, "gone": GroupType.CLASSIC})
        gone, old, new = found["gone"], found["old"], found["new"]
        assert isinstance(gone, ClusterError) and gone.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert isinstance(old, SurveyedGroup) and isinstance(new, SurveyedGroup)
        for one in (old, new):
            (lag,) = one.lags
            assert (lag.offset, lag.log_end_offset, lag.lag) == (2, 4, 2)
            # the record at offset 2
            assert lag.lag_ms is not None
            assert begun_ms <= RECORD_MS + 2 + lag.lag_ms <= now_ms()
        assert await commit_offsets(requests, "old", {PLACE: 3}) == {PLACE: None}
        assert await delete_offsets(requests, "old", [PLACE]) == {PLACE: None}
        assert await delete_groups(requests, ["old", "new"]) == {"old": None, "new": None}
        member = GroupMember("m", "i", "c", "/h")
        await remove_member(requests, "old", GroupType.CLASSIC, member)
        await remove_member(requests, "new", GroupType.CONSUMER, member)

    run(story, versions)


@pytest.mark.parametrize("versions", [VERSIONS_OF_3_9, {}], ids=["3.9", "newest"])
def test_every_request_about_transactions_is_understood(versions: dict[ApiKey, tuple[int, int]]) -> None:
    async def story(requests: ClusterRequests, _: ScriptedCluster) -> None:
        assert len(await list_transactions(requests, ["Ongoing"], [7], 5)) == 2
        (described_one,) = (await describe_transactions(requests, ["orders-1"])).values()
        assert not isinstance(described_one, ClusterError)
        (producers,) = (await describe_producers(requests, [PLACE])).values()
        assert not isinstance(producers, ClusterError) and len(producers) == 1
        await abort_in_partition(requests, PLACE, 7, 0, -1)
        assert await force_terminate(requests, "orders-1") == (9, 4)

    run(story, versions)


def test_a_broker_that_has_no_patterns_has_them_applied_to_its_listing() -> None:
    async def story(requests: ClusterRequests, _: ScriptedCluster) -> None:
        found = await list_transactions(requests, pattern="orders-.*")
        assert [one.transactional_id for one in found] == ["orders-1"]
        with pytest.raises(ClusterError, match="no regular expression") as told:
            await list_transactions(requests, pattern="(")
        assert told.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION

    run(story, VERSIONS_OF_3_9)


def test_a_broker_that_names_no_types_has_its_groups_described_as_classic_ones() -> None:
    async def story(requests: ClusterRequests, cluster: ScriptedCluster) -> None:
        listed = {one.group_id: one.type for one in await list_groups(requests)}
        assert set(listed.values()) == {GroupType.UNKNOWN}
        found = await survey(requests, {"old": listed["old"]}, ages=False)
        assert isinstance(found["old"], SurveyedGroup)
        assert cluster.count(ApiKey.CONSUMER_GROUP_DESCRIBE) == 0

    run(story, VERSIONS_OF_3_9 | {ApiKey.LIST_GROUPS: (0, 4)})


def test_a_kind_of_groups_that_a_broker_does_not_know_is_an_error_of_those_groups() -> None:
    async def story(requests: ClusterRequests, _: ScriptedCluster) -> None:
        found = await survey(requests, {"old": GroupType.CLASSIC, "shared": GroupType.SHARE})
        shared = found["shared"]
        assert isinstance(shared, ClusterError) and shared.code == ErrorCode.UNSUPPORTED_VERSION
        assert isinstance(found["old"], SurveyedGroup)

    run(story, VERSIONS_OF_3_9)
