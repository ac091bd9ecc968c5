"""Reads brokers, topics, settings, moves, the quorum and each broker's versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from ottla.client.admin.configs import ConfigEntry, Resource, ResourceType, ValueType, describe_configs
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, require_success
from ottla.client.errors import ClusterError
from ottla.doctor.reading.drafts import Draft, answered, tell_failed
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import (
    BrokerView,
    ClockReading,
    ClusterView,
    Contact,
    Move,
    NodeVersions,
    PartitionView,
    QuorumView,
    Replica,
    Setting,
    TopicView,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

V = TypeVar("V")

TOPIC_SETTINGS: Final = (
    "cleanup.policy",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "min.cleanable.dirty.ratio",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
)
TOPICS_A_PAGE: Final = 1_000
CLOCK_TRIES: Final = 3
FENCED_SINCE: Final = 2


async def or_error(asking: Awaitable[V]) -> V | ClusterError:
    """The answer, or the error as a value: others go on."""
    try:
        return await asking
    except ClusterError as problem:
        return problem


async def read_cluster(look: Look, draft: Draft) -> ClusterView:
    """Brokers by DescribeCluster, fenced ones too where version 2 is spoken (KIP-1073); else by Metadata."""
    client = look.lane("cluster")
    version = 0

    def request(spoken: int) -> DescribeClusterRequest:
        nonlocal version
        version = spoken
        return DescribeClusterRequest(include_fenced_brokers=spoken >= FENCED_SINCE)

    from ottla.client.kafka_requests import RequestByVersion

    try:
        answer = await client.ask(RequestByVersion(ApiKey.DESCRIBE_CLUSTER, request), DescribeClusterResponse)
        require_success(answer.error_code, answer.error_message)
    except ClusterError as problem:
        if problem.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        known = await client.cluster()
        views = {
            one.node_id: BrokerView(one.node_id, one.host, one.port, one.rack)
            for one in known.brokers.values()
        }
        return ClusterView(known.cluster_id, views, tells_fenced=False)
    brokers = {
        one.broker_id: BrokerView(one.broker_id, one.host, one.port, one.rack or None, one.is_fenced)
        for one in answer.brokers
    }
    return ClusterView(answer.cluster_id, dict(sorted(brokers.items())), version >= FENCED_SINCE)


async def read_topics(look: Look, draft: Draft) -> dict[str, TopicView]:
    """All topics that the user may see, by Metadata."""
    found = {}
    for topic in await look.lane("cluster").topics():
        if topic.name and not topic.error_code:
            listed = sorted(topic.partitions, key=lambda one: one.partition_index)
            found[topic.name] = TopicView(
                topic.name,
                topic.is_internal,
                tuple(
                    PartitionView(
                        one.partition_index, one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes)
                    )
                    for one in listed
                ),
            )
    return found


async def read_topic_settings(look: Look, draft: Draft) -> dict[str, dict[str, Setting]]:
    """The settings of topics that checks look at, a page of topics after the other."""
    names = sorted(await look.need("topics"))
    found: dict[str, dict[str, Setting]] = {}
    failed: list[tuple[str, ClusterError]] = []
    for start in range(0, len(names), TOPICS_A_PAGE):
        page = [Resource(ResourceType.TOPIC, name) for name in names[start : start + TOPICS_A_PAGE]]
        answers = await describe_configs(look.lane("settings"), page, names=TOPIC_SETTINGS)
        for resource, entries in answers.items():
            if isinstance(entries, ClusterError):
                failed.append((resource.name, entries))
            else:
                found[resource.name] = settings_of(entries)
        if found:
            draft.value = found
    if failed and not found:
        raise failed[0][1]
    tell_failed(failed, "settings of topic", draft)
    return found


def settings_of(entries: list[ConfigEntry]) -> dict[str, Setting]:
    """Settings by name. A name whose type the broker does not say is one that it does not know."""
    return {one.name: Setting(one.value, one.source.name, one.type is ValueType.UNKNOWN) for one in entries}


async def read_broker_settings(look: Look, draft: Draft) -> dict[int, dict[str, Setting]]:
    """All settings of each live broker, by the broker itself."""
    client = look.lane("brokers")
    nodes = (await look.need("cluster")).live()

    async def of(node: int) -> list[ConfigEntry]:
        resource = Resource(ResourceType.BROKER, str(node))
        entries = (await describe_configs(client, [resource])).get(resource)
        if entries is None:
            raise ClusterError(f"broker {node} does not tell its settings")
        if isinstance(entries, ClusterError):
            raise entries
        return entries

    answers = await asyncio.gather(*(or_error(of(node)) for node in nodes))
    found = answered(dict(zip(nodes, answers, strict=True)), "settings of broker", draft)
    return {node: settings_of(entries) for node, entries in found.items()}


async def read_moves(look: Look, draft: Draft) -> dict[TopicPartition, Move]:
    """The reassignments that are under way."""
    return await moves(look.lane("cluster"))


async def moves(client: ClusterRequests) -> dict[TopicPartition, Move]:
    """The reassignments that are under way. Raises ClusterError."""
    answer = await client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    require_success(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): Move(
            tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in answer.topics
        for one in topic.partitions
    }


async def read_quorum(look: Look, draft: Draft) -> QuorumView:
    """The metadata quorum; one without a leader answers nothing, which is told as such."""
    answer = await _describe_quorum(look)
    if answer is None:
        return QuorumView(-1, (), ())
    return QuorumView(
        answer.leader_id,
        tuple(_replica(one) for one in answer.current_voters),
        tuple(_replica(one) for one in answer.observers),
    )


NO_LEADER: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


async def _describe_quorum(look: Look) -> Any:
    """The description of the metadata's partition; None where the cluster says that it has no leader."""
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    answer = await look.lane("quorum").ask(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
    if answer.error_code in NO_LEADER:
        return None
    require_success(answer.error_code, answer.error_message)
    state = answer.topics[0].partitions[0]
    if state.error_code in NO_LEADER:
        return None
    require_success(state.error_code, state.error_message)
    return state


def _replica(one: Any) -> Replica:
    told = one.last_caught_up_timestamp
    return Replica(one.replica_id, one.log_end_offset, told if told >= 0 else None)


async def read_clocks(look: Look, draft: Draft) -> tuple[ClockReading, ...]:
    """The clock of the active controller: in DescribeQuorum it tells the time as of which it has itself all.

    It is the one clock that a request tells without a record being written; `--probe` measures all brokers'.
    """
    best: ClockReading | None = None
    for _ in range(CLOCK_TRIES):
        before_ms = look.options.now_ms()
        state = await _describe_quorum(look)
        after_ms = look.options.now_ms()
        told = [
            one.last_caught_up_timestamp
            for one in (() if state is None else (*state.current_voters, *state.observers))
            if one.replica_id == state.leader_id and one.last_caught_up_timestamp > 0
        ]
        if not told:
            raise ClusterError(
                "the cluster does not tell its controller's time", ErrorCode.UNSUPPORTED_VERSION
            )
        reading = ClockReading(
            f"controller {state.leader_id}", told[0] - (before_ms + after_ms) / 2, (after_ms - before_ms) / 2
        )
        if best is None or reading.error_ms < best.error_ms:
            best = reading
    assert best is not None
    return (best,)


async def read_versions(look: Look, draft: Draft) -> dict[int, NodeVersions]:
    """The requests and features of each live broker, by ApiVersions."""
    answers: Mapping[int, NodeVersions | ClusterError] = await look.need("greetings")
    return answered(answers, "versions of broker", draft)


async def read_contacts(look: Look, draft: Draft) -> tuple[Contact, ...]:
    """Each live broker with the reason why it did not answer at its address."""
    brokers = (await look.need("cluster")).brokers
    answers: Mapping[int, NodeVersions | ClusterError] = await look.need("greetings")
    return tuple(
        Contact(brokers[node], str(one) if isinstance(one, ClusterError) else None)
        for node, one in answers.items()
    )


async def read_greetings(look: Look, draft: Draft) -> dict[int, NodeVersions | ClusterError]:
    """Each live broker's answer to ApiVersions, or the error in its place."""
    cluster: ClusterView = await look.need("cluster")
    client = look.lane("greetings")
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="doctor")
    nodes = cluster.live()
    # Metadata names live brokers alone, and is asked once for all of them.
    answers = await asyncio.gather(
        *(or_error(client.ask_node(node, request, ApiVersionsResponse)) for node in nodes)
    )
    return {
        node: answer if isinstance(answer, ClusterError) else _versions(answer)
        for node, answer in zip(nodes, answers, strict=True)
    }


def _versions(answer: ApiVersionsResponse) -> NodeVersions:
    return NodeVersions(
        {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys},
        {one.name: (one.min_version, one.max_version) for one in answer.supported_features},
        {one.name: one.max_version_level for one in answer.finalized_features},
    )
