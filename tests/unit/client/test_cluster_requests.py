"""Requests find the node that can answer them, again after it has moved, and never act twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest

from ottla.client import cluster_requests
from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import (
    ClusterRequests,
    CoordinatorType,
    TopicPartition,
    by_topic,
    error_codes,
)
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from support.clients.scripted_cluster import ScriptedCluster, scripted_cluster

Story = Callable[[ScriptedCluster, ClusterRequests], Awaitable[None]]
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)])


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_requests, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(cluster_requests, "LONGEST_PAUSE_SECONDS", 0.01)


def run(story: Story, nodes: int = 3, timeout_seconds: float = 20, **versions: tuple[int, int]) -> None:
    async def told() -> None:
        given = {ApiKey[name]: each for name, each in versions.items()}
        async with scripted_cluster(nodes, given) as cluster:
            requests = ClusterRequests(cluster.access, timeout_seconds)
            try:
                await story(cluster, requests)
            finally:
                await requests.close()

    asyncio.run(told())


def created(code: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=code)])


# -- nodes -------------------------------------------------------------------------------------------------


def test_any_broker_is_the_first_that_answers() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        await cluster.stop(1)
        cluster.handlers[ApiKey.LIST_GROUPS] = lambda node, body: ListGroupsResponse()
        await requests.ask(ListGroupsRequest(), ListGroupsResponse)
        await requests.ask(ListGroupsRequest(), ListGroupsResponse)
        assert cluster.brokers_asked(ApiKey.LIST_GROUPS) == [2, 2]

    run(story)


def test_all_brokers_are_asked_and_one_that_is_gone_is_an_error_of_its_own() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        await cluster.stop(2)
        cluster.handlers[ApiKey.LIST_GROUPS] = lambda node, body: ListGroupsResponse(throttle_time_ms=node)
        answers = await requests.ask_all(ListGroupsRequest(), ListGroupsResponse)
        assert list(answers) == [1, 2, 3]
        assert isinstance(answers[2], ClusterError)
        assert "cannot be reached" in str(answers[2])
        told = [getattr(answers[node], "throttle_time_ms", None) for node in (1, 3)]
        assert told == [1, 3]

    run(story)


def test_a_node_that_is_not_there_is_told_with_those_that_are() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        with pytest.raises(ClusterError, match="no live broker 7; there are 1, 2, 3"):
            await requests.ask_node(7, ListGroupsRequest(), ListGroupsResponse)

    run(story)


def test_a_cluster_that_does_not_answer_names_every_server() -> None:
    async def ask() -> None:
        requests = ClusterRequests(ClusterAccess("127.0.0.1:1,localhost:2"))
        with pytest.raises(ClusterError, match=r"127.0.0.1:1 cannot.*; .*localhost:2 cannot") as told:
            await requests.cluster()
        assert told.value.code is None
        await requests.close()

    asyncio.run(ask())


def test_an_api_that_no_broker_has_has_the_code_of_that() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        with pytest.raises(ClusterError, match="serves no version of LIST_GROUPS") as told:
            await requests.ask(ListGroupsRequest(), ListGroupsResponse)
        assert told.value.code == ErrorCode.UNSUPPORTED_VERSION

    run(story, LIST_GROUPS=(100, 100))


def test_brokers_are_found_again_when_all_bootstrap_servers_are_gone() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        del requests
        only_first = ClusterRequests(ClusterAccess(f"127.0.0.1:{cluster.ports[1]}"))
        await only_first.cluster()
        await cluster.stop(1)
        assert list((await only_first.cluster(refresh=True)).brokers) == [1, 2, 3]
        await only_first.close()

    run(story)


# -- the controller ----------------------------------------------------------------------------------------


def test_the_controller_is_looked_for_again_when_it_has_moved() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        def create(node: int, body: Any) -> CreateTopicsResponse:
            cluster.controller = 2
            return created() if node == 2 else created(ErrorCode.NOT_CONTROLLER)

        cluster.handlers[ApiKey.CREATE_TOPICS] = create
        answer = await requests.ask_controller(CREATE, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
        assert cluster.brokers_asked(ApiKey.CREATE_TOPICS) == [1, 2]

    run(story)


def test_another_broker_sends_a_request_on_when_the_controller_takes_no_connection() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.CREATE_TOPICS] = lambda node, body: created()
        await cluster.stop(1)
        await requests.ask_controller(CREATE, CreateTopicsResponse)
        assert cluster.brokers_asked(ApiKey.CREATE_TOPICS) == [2]

    run(story)


def test_a_change_that_may_have_been_made_is_not_sent_again() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.CREATE_TOPICS] = lambda node, body: None
        with pytest.raises(ClusterError, match="closed the connection before it answered"):
            await requests.ask_controller(CREATE, CreateTopicsResponse)
        assert cluster.count(ApiKey.CREATE_TOPICS) == 1

    run(story)


def test_a_controller_that_never_comes_is_waited_for_until_the_timeout() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.CREATE_TOPICS] = lambda node, body: created(ErrorCode.NOT_CONTROLLER)
        answer = await requests.ask_controller(CREATE, CreateTopicsResponse)
        assert error_codes(answer) >= {ErrorCode.NOT_CONTROLLER}
        assert cluster.count(ApiKey.CREATE_TOPICS) > 2

    run(story, timeout_seconds=0.2)


# -- coordinators ------------------------------------------------------------------------------------------


def describe(groups: Sequence[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(groups))


def described(answer: DescribeGroupsResponse) -> Iterator[tuple[str, int, str]]:
    for group in answer.groups:
        yield group.group_id, group.error_code, group.group_state


class Coordinators:
    """Groups' coordinators, some of which move, start or are not there at first."""

    def __init__(self, cluster: ScriptedCluster, places: dict[str, int]) -> None:
        self.cluster = cluster
        self.places = places
        self.not_yet: dict[str, int] = {}
        cluster.handlers[ApiKey.FIND_COORDINATOR] = self.find
        cluster.handlers[ApiKey.DESCRIBE_GROUPS] = self.describe

    def find(self, node: int, body: Any) -> FindCoordinatorResponse:
        if body.coordinator_keys:
            return FindCoordinatorResponse(coordinators=[self.place(key) for key in body.coordinator_keys])
        one = self.place(body.key)
        return FindCoordinatorResponse(
            error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port
        )

    def place(self, key: str) -> Coordinator:
        if self.not_yet.get(key, 0) > 0:
            self.not_yet[key] -= 1
            return Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, port=-1)
        node = self.places[key]
        return Coordinator(key=key, node_id=node, host="127.0.0.1", port=self.cluster.ports[node])

    def describe(self, node: int, body: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    group_id=name,
                    error_code=0 if self.places[name] == node else ErrorCode.NOT_COORDINATOR,
                    group_state=f"at {node}",
                )
                for name in body.groups
            ]
        )


@pytest.mark.parametrize("newest", [0, 3, 4, 6])
def test_groups_are_asked_about_at_their_coordinators_whatever_the_version(newest: int) -> None:
    places = {f"group-{number}": random.choice((1, 2, 3)) for number in range(20)}

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        coordinators = Coordinators(cluster, places)
        coordinators.not_yet = dict.fromkeys(random.sample(list(places), 5), 2)
        kind = CoordinatorType.GROUP
        found = await requests.ask_coordinators(kind, places, describe, DescribeGroupsResponse, described)
        assert found == {name: f"at {node}" for name, node in places.items()}
        assert list(found) == list(places)
        assert cluster.count(ApiKey.DESCRIBE_GROUPS) == len(set(places.values()))

    run(story, FIND_COORDINATOR=(0, newest))


@pytest.mark.parametrize("newest", [3, 6])
def test_thousands_of_groups_find_their_coordinators(newest: int) -> None:
    places = {f"group-{number}": 1 for number in range(1_500)}

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        Coordinators(cluster, places)
        found = await requests.coordinators(CoordinatorType.GROUP, list(places))
        assert list(found) == list(places)
        assert cluster.count(ApiKey.FIND_COORDINATOR) == (1_500 if newest == 3 else 2)

    run(story, FIND_COORDINATOR=(0, newest))


def test_a_key_that_the_answer_leaves_out_is_an_error_of_its_own() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        found_a = Coordinator(key="a", node_id=1, host="127.0.0.1", port=cluster.ports[1])
        cluster.handlers[ApiKey.FIND_COORDINATOR] = lambda node, body: FindCoordinatorResponse(
            coordinators=[found_a]
        )
        found = await requests.coordinators(CoordinatorType.GROUP, ["a", "b"])
        assert not isinstance(found["a"], ClusterError)
        assert isinstance(found["b"], ClusterError)

    run(story)


def test_groups_that_move_are_asked_about_again_and_no_others() -> None:
    places = {f"group-{number}": random.choice((1, 2, 3)) for number in range(30)}

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        coordinators = Coordinators(cluster, places)
        kind = CoordinatorType.GROUP
        await requests.ask_coordinators(kind, places, describe, DescribeGroupsResponse, described)
        moved = random.sample(list(places), 10)
        coordinators.places |= {name: coordinators.places[name] % 3 + 1 for name in moved}
        cluster.asked.clear()
        found = await requests.ask_coordinators(kind, places, describe, DescribeGroupsResponse, described)
        assert found == {name: f"at {node}" for name, node in coordinators.places.items()}
        asked = [
            name for _, key, body in cluster.asked if key is ApiKey.DESCRIBE_GROUPS for name in body.groups
        ]
        assert sorted(asked) == sorted([*places, *moved])

    run(story)


def test_one_coordinator_that_is_gone_fails_its_groups_alone() -> None:
    places = {"a": 1, "b": 2, "c": 3}

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        Coordinators(cluster, places)
        await cluster.stop(2)
        kind = CoordinatorType.GROUP
        found = await requests.ask_coordinators(kind, places, describe, DescribeGroupsResponse, described)
        assert (found["a"], found["c"]) == ("at 1", "at 3")
        assert isinstance(found["b"], ClusterError)

    run(story, timeout_seconds=0.5)


def test_a_change_at_a_coordinator_that_may_have_been_made_is_not_sent_again() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        Coordinators(cluster, {"a": 1, "b": 2})
        kind = CoordinatorType.GROUP
        cluster.handlers[ApiKey.DESCRIBE_GROUPS] = lambda node, body: None
        with pytest.raises(ClusterError, match="closed the connection before it answered"):
            await requests.ask_coordinator(kind, "a", describe(["a"]), DescribeGroupsResponse)
        assert cluster.brokers_asked(ApiKey.DESCRIBE_GROUPS) == [1]
        found = await requests.ask_coordinators(kind, ["a", "b"], describe, DescribeGroupsResponse, described)
        assert all(isinstance(each, ClusterError) for each in found.values())
        assert sorted(cluster.brokers_asked(ApiKey.DESCRIBE_GROUPS)) == [1, 1, 2]

    run(story)


def test_a_refused_key_is_not_waited_for() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.FIND_COORDINATOR] = lambda node, body: FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for key in body.coordinator_keys
            ]
        )
        with pytest.raises(ClusterError, match="not authorized for the group") as told:
            await requests.ask_coordinator(
                CoordinatorType.GROUP, "secret", describe(["secret"]), DescribeGroupsResponse
            )
        assert told.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 1

    run(story)


def test_the_coordinator_of_one_key_is_asked_again_where_it_has_moved() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        coordinators = Coordinators(cluster, {"a": 1})
        kind, request = CoordinatorType.TRANSACTION, describe(["a"])
        await requests.ask_coordinator(kind, "a", request, DescribeGroupsResponse)
        coordinators.places["a"] = 3
        answer = await requests.ask_coordinator(kind, "a", request, DescribeGroupsResponse)
        assert answer.groups[0].group_state == "at 3"
        assert cluster.brokers_asked(ApiKey.DESCRIBE_GROUPS) == [1, 1, 3]

    run(story)


# -- leaders -----------------------------------------------------------------------------------------------


class Leaders:
    """Topics whose partitions' leaders change now and then; an answer is the leader's id."""

    def __init__(self, cluster: ScriptedCluster, leaders: dict[TopicPartition, int]) -> None:
        self.cluster = cluster
        self.leaders = leaders
        self.moves = 0
        cluster.handlers[ApiKey.METADATA] = self.metadata
        cluster.handlers[ApiKey.LIST_OFFSETS] = self.offsets

    def metadata(self, node: int, body: Any) -> Any:
        topics = []
        for name in [topic.name for topic in body.topics or ()]:
            partitions = [
                MetadataResponsePartition(partition_index=one.partition, leader_id=leader)
                for one, leader in self.leaders.items()
                if one.topic == name
            ]
            code = 0 if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(MetadataResponseTopic(name=name, error_code=code, partitions=partitions))
        return self.cluster.metadata(topics=topics)

    def offsets(self, node: int, body: Any) -> ListOffsetsResponse:
        if self.moves > 0:
            self.moves -= 1
            for one in random.sample(list(self.leaders), len(self.leaders) // 3):
                self.leaders[one] = random.choice((1, 2, 3))
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self.answer(node, TopicPartition(topic.name, one.partition_index))
                        for one in topic.partitions
                    ],
                )
                for topic in body.topics
            ]
        )

    def answer(self, node: int, one: TopicPartition) -> ListOffsetsPartitionResponse:
        code = 0 if self.leaders[one] == node else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ListOffsetsPartitionResponse(partition_index=one.partition, error_code=code, offset=node)


def offsets_of(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
    )


def offset_parts(answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one.error_code, one.offset


@pytest.mark.parametrize("moves", [0, 1, 5, 20])
def test_every_partition_is_answered_by_its_leader_while_leaders_move(moves: int) -> None:
    leaders = {
        TopicPartition(topic, index): random.choice((1, 2, 3)) for topic in ("a", "b") for index in range(20)
    }

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        placed = Leaders(cluster, leaders)
        placed.moves = moves
        wanted = random.sample(list(leaders), len(leaders))
        found = await requests.ask_leaders(wanted, offsets_of, ListOffsetsResponse, offset_parts)
        assert list(found) == wanted
        if moves == 0:
            assert found == {one: leaders[one] for one in wanted}
            assert cluster.count(ApiKey.LIST_OFFSETS) == len(set(leaders.values()))
        assert all(isinstance(each, int) for each in found.values())

    run(story)


def test_what_does_not_exist_is_told_at_once() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        Leaders(cluster, {TopicPartition("a", 0): 1})
        wanted = [TopicPartition("a", 0), TopicPartition("a", 5), TopicPartition("nope", 0)]
        found = await requests.ask_leaders(wanted, offsets_of, ListOffsetsResponse, offset_parts)
        assert found[wanted[0]] == 1
        assert isinstance(found[wanted[1]], NoSuchTopic)
        assert "topic a has no partition 5" in str(found[wanted[1]])
        assert "topic nope does not exist" in str(found[wanted[2]])
        assert cluster.count(ApiKey.METADATA) <= 2

    run(story)


def test_a_partition_without_a_leader_is_waited_for_no_longer_than_wanted() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        Leaders(cluster, {TopicPartition("a", 0): -1, TopicPartition("a", 1): 2, TopicPartition("a", 2): 9})
        wanted = [TopicPartition("a", index) for index in range(3)]
        found = await requests.ask_leaders(wanted, offsets_of, ListOffsetsResponse, offset_parts, 0.05)
        assert found[wanted[1]] == 2
        for lost in (wanted[0], wanted[2]):
            assert isinstance(found[lost], ClusterError)
            assert found[lost].code == ErrorCode.LEADER_NOT_AVAILABLE  # type: ignore[union-attr]
        assert cluster.count(ApiKey.LIST_OFFSETS) == 1

    run(story)
