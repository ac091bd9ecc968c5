"""OffsetCommit, OffsetFetch, FindCoordinator and LeaveGroup in every version, asked by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

NOWHERE = uuid.UUID(int=77)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as connected:

        def ready() -> bool:
            found = connected.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0]
            return found.error_code == 0 and connected.call(ListGroupsRequest()).error_code == 0

        wait_for(ready)
        yield connected


def commit(
    client: WireClient, group: str, topics: dict[str, uuid.UUID], version: int
) -> dict[str, list[Any]]:
    """Commit offset 7 of partitions 0 and 9 of each topic; topic -> (partition, error) as answered."""
    names = {topic_id: name for name, topic_id in topics.items()}
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="" if version >= 10 else name,
                topic_id=topic_id if version >= 10 else uuid.UUID(int=0),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=7, committed_metadata="m"
                    )
                    for index in (0, 9)
                ],
            )
            for name, topic_id in topics.items()
        ],
    )
    answer = client.call(request, version)
    return {
        topic.name or names[topic.topic_id]: sorted(
            (each.partition_index, ErrorCode(each.error_code)) for each in topic.partitions
        )
        for topic in answer.topics
    }


def fetch(client: WireClient, group: str, topic: str, topic_id: uuid.UUID, version: int) -> list[Any]:
    """The group's offsets of partitions 0 and 1 of a topic: (partition, offset, metadata, error)."""
    if version < 8:
        wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])
        answer = client.call(OffsetFetchRequest(group_id=group, topics=[wanted]), version)
        topics = answer.topics
    else:
        named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
        wanted_topics = [OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
        groups = [OffsetFetchRequestGroup(group_id=group, topics=wanted_topics)]
        answer = client.call(OffsetFetchRequest(groups=groups), version)
        topics = answer.groups[0].topics
    return [
        (each.partition_index, each.committed_offset, each.metadata, ErrorCode(each.error_code))
        for each in topics[0].partitions
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_is_taken_partition_by_partition(client: WireClient, unique_name: str, version: int) -> None:
    # given: a topic with two partitions, and one that does not exist
    topic_id = client.create_topic(unique_name, partitions=2)
    # when
    answered = commit(client, unique_name, {unique_name: topic_id, "nosuch": NOWHERE}, version)
    # then: partition 9 and the unknown topic are refused, the rest is committed
    of_unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN
    assert answered == {
        unique_name: [(0, ErrorCode.NONE), (9, UNKNOWN)],
        "nosuch": [(0, of_unknown), (9, of_unknown)],
    }
    for fetch_version in range(1, 11):
        assert fetch(client, unique_name, unique_name, topic_id, fetch_version) == [
            (0, 7, "m", ErrorCode.NONE),
            (1, -1, "", ErrorCode.NONE),
        ]


@pytest.mark.parametrize("version", range(1, 11))
def test_a_topic_that_does_not_exist_has_no_offsets(
    client: WireClient, unique_name: str, version: int
) -> None:
    error = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
    assert fetch(client, unique_name, "nosuch", NOWHERE, version) == [(0, -1, "", error), (1, -1, "", error)]


@pytest.mark.parametrize("version", range(2, 11))
def test_all_of_a_groups_offsets(client: WireClient, unique_name: str, version: int) -> None:
    # given
    topic_id = client.create_topic(unique_name)
    commit(client, unique_name, {unique_name: topic_id}, 9)
    # when
    if version < 8:
        topics = client.call(OffsetFetchRequest(group_id=unique_name, topics=None), version).topics
    else:
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in (unique_name, "nosuch")]
        found, nothing = client.call(OffsetFetchRequest(groups=groups), version).groups
        assert (nothing.error_code, nothing.topics) == (0, [])
        topics = found.topics
    # then
    (topic,) = topics
    assert (topic.topic_id == topic_id) if version >= 10 else (topic.name == unique_name)
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 7)]


@pytest.mark.parametrize("version", range(6))
def test_leaving_without_a_member_id(client: WireClient, unique_name: str, version: int) -> None:
    if version < 3:
        answer = client.call(LeaveGroupRequest(group_id=unique_name, member_id="nobody"), version)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        leaver = MemberIdentity(member_id="nobody")
        answer = client.call(LeaveGroupRequest(group_id=unique_name, members=[leaver]), version)
        assert answer.error_code == ErrorCode.NONE
        assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_and_of_nothing(
    client: WireClient, cluster: Cluster, version: int
) -> None:
    def find(key_type: int) -> Any:
        if version < 4:
            return client.call(FindCoordinatorRequest(key="g", key_type=key_type), version)
        request = FindCoordinatorRequest(coordinator_keys=["h", "g"], key_type=key_type)
        return {each.key: each for each in client.call(request, version).coordinators}["g"]

    found = find(0)
    assert (found.error_code, f"{found.host}:{found.port}") == (0, cluster.bootstrap)
    if version >= 1:
        nothing = find(5)
        assert (nothing.error_code, nothing.node_id) == (ErrorCode.INVALID_REQUEST, -1)
