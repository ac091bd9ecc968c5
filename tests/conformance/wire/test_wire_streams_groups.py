"""Streams groups by hand: the answers to members and administrators, compared with Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ottla.core.image.features import STREAMS_VERSION
from ottla.core.settings.broker_settings.groups import IN_MEMORY_TOPOLOGY_DESCRIPTIONS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

Begin = Callable[[str], Transcript]
StartOwn = Callable[..., AbstractContextManager[Cluster]]

TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS = 1, 2, 3
ASSIGNMENT_DELAYED = 5
NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
"""The statuses of a topology's description."""


def joining(
    group: str, member: str, topology: Topology | None, **others: Any
) -> StreamsGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "process_id": f"process-of-{member}",
        "rebalance_timeout_ms": 60_000,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        **others,
    }
    return StreamsGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, topology=topology, **fields
    )


def heartbeat(group: str, member: str, epoch: int, **others: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **others)


def owning(group: str, member: str, epoch: int, **tasks: list[int]) -> StreamsGroupHeartbeatRequest:
    """A heartbeat that names the active tasks: `of_0=[1, 2]` are two of subtopology 0."""
    active = [
        TaskIds(subtopology_id=name.removeprefix("of_"), partitions=partitions)
        for name, partitions in tasks.items()
    ]
    return heartbeat(group, member, epoch, active_tasks=active, standby_tasks=[], warmup_tasks=[])


def counting(prefix: str, epoch: int = 1, source: str = "in") -> Topology:
    """Reads a topic, repartitions it, and counts."""
    repartition = f"{prefix}-repartition"
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=[f"{prefix}-{source}"],
                repartition_sink_topics=[repartition],
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[
                    TopicInfo(name=repartition, topic_configs=[KeyValue(key="retention.ms", value="-1")])
                ],
                state_changelog_topics=[
                    TopicInfo(
                        name=f"{prefix}-changelog",
                        topic_configs=[
                            KeyValue(key="cleanup.policy", value="compact"),
                            KeyValue(key="segment.bytes", value="1048576"),
                        ],
                    )
                ],
            ),
        ],
    )


def coordinator_is_ready(wire: WireClient, group: str) -> None:
    """The coordinator's topic is made when it is first asked for, and then loaded."""

    def ready() -> bool:
        wire.call(FindCoordinatorRequest(coordinator_keys=[group]))
        described = wire.call(StreamsGroupDescribeRequest(group_ids=[group])).groups[0]
        return bool(described.error_code == ErrorCode.GROUP_ID_NOT_FOUND)

    wait_for(ready)


def assign_at_once(wire: WireClient, group: str, **others: str) -> None:
    """Let the group's targets be made without delay."""
    settings = {
        "streams.assignment.interval.ms": "0",
        "streams.initial.rebalance.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in others.items()},
    }
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE, answer
    wait_for(lambda: _is_set(wire, group))


def _is_set(wire: WireClient, group: str) -> bool:
    resource = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group)
    configs = wire.call(DescribeConfigsRequest(resources=[resource])).results[0].configs
    return any(config.name == "streams.assignment.interval.ms" and config.value == "0" for config in configs)


def say_until(talk: Transcript, request: StreamsGroupHeartbeatRequest, no_status: int) -> Any:
    """Send the heartbeat until the status is gone; only the last answer is in the transcript.

    Topics reach the coordinator a moment after they are made.
    """
    answers: list[Any] = []

    def said() -> bool:
        before = list(talk.lines)
        answer = talk.say(request)
        if any(status.status_code == no_status for status in answer.status or ()):
            talk.lines[:] = before
            return False
        answers.append(answer)
        return True

    wait_for(said)
    return answers[0]


def of_this_test(prefix: str) -> Callable[[Any], None]:
    def keep(response: Any) -> None:
        response.groups = [group for group in response.groups if group.group_id.startswith(prefix)]

    return keep


def commit(group: str, member: str, epoch: int, topic: str, partition: int = 0) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)],
            )
        ],
    )


def fetch(group: str, member: str | None, epoch: int, topic: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ]
    )


def test_heartbeats_that_are_refused(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_heartbeats_refused")
    group = f"{talk.prefix}-group"
    topology = counting(talk.prefix)
    coordinator_is_ready(talk.wire, group)
    talk.title("Requests that make no sense")
    talk.say(joining(group, "", topology))
    talk.say(joining("", "m1", topology))
    talk.say(joining(group, "m1", None))
    talk.say(joining(group, "m1", topology, rack_id=" "))
    talk.say(joining(group, "m1", topology, rebalance_timeout_ms=-1))
    talk.say(joining(group, "m1", topology, active_tasks=None))
    talk.say(joining(group, "m1", topology, standby_tasks=[TaskIds(subtopology_id="0", partitions=[0])]))
    talk.say(heartbeat(group, "m1", -3))
    talk.say(heartbeat(group, "m1", -2))
    talk.say(heartbeat(group, "m1", 1, instance_id=" "))
    talk.say(heartbeat(group, "m1", 1, warmup_tasks=[TaskIds(subtopology_id="0", partitions=[0])]))
    talk.say(heartbeat(group, "m1", 1, topology=topology))
    talk.say(heartbeat(group, "m1", 1, active_tasks=[]))
    talk.title("What is in the protocol, but not served")
    regex = Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["a.*"])])
    talk.say(joining(group, "m1", regex))
    talk.title("Topologies that can't be")
    talk.say(joining(group, "m1", _reading("__consumer_offsets")))
    talk.say(joining(group, "m1", _reading("not a topic")))
    sized = _reading(f"{talk.prefix}-t")
    sized.subtopologies[0].state_changelog_topics = [TopicInfo(name="changelog", partitions=2)]
    talk.say(joining(group, "m1", sized))
    talk.title("A group that is not there")
    talk.say(heartbeat(group, "m1", 1))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group, ""]))
    talk.title("A group of another kind")
    talk.wire.create_topic(f"{talk.prefix}-in")
    talk.say(OffsetCommitRequest(group_id=group, topics=commit(group, "", -1, f"{talk.prefix}-in").topics), 9)
    talk.say(heartbeat(group, "m1", 1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))


def _reading(*topics: str) -> Topology:
    return Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=list(topics))])


def test_topologies_without_their_topics(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_topologies")
    prefix, wire = talk.prefix, talk.wire
    coordinator_is_ready(wire, f"{prefix}-a")
    for name, partitions in (("two", 2), ("three", 3), ("wide-changelog", 4)):
        wire.create_topic(f"{prefix}-{name}", partitions=partitions)
    talk.title("Copartitioned sources of different widths")
    unequal = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=[f"{prefix}-two", f"{prefix}-three"],
                copartition_groups=[CopartitionGroup(source_topics=[0, 1])],
            )
        ],
    )
    assign_at_once(wire, f"{prefix}-a")
    say_until(talk, joining(f"{prefix}-a", "m1", unequal), MISSING_SOURCE_TOPICS)
    talk.say(StreamsGroupDescribeRequest(group_ids=[f"{prefix}-a"]))
    talk.title("An internal topic of another width")
    assign_at_once(wire, f"{prefix}-b")
    wide = _reading(f"{prefix}-two")
    wide.subtopologies[0].state_changelog_topics = [TopicInfo(name=f"{prefix}-wide-changelog")]
    talk.say(joining(f"{prefix}-b", "m1", wide))
    talk.title("A repartition topic that is fixed, beside a source that it should fit")
    fixed = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=[f"{prefix}-two"],
                repartition_source_topics=[TopicInfo(name=f"{prefix}-fixed", partitions=3)],
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            )
        ],
    )
    talk.say(joining(f"{prefix}-c", "m1", fixed))
    talk.title("Repartition topics in a circle, one that nobody writes, and no source at all")
    circle = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                repartition_source_topics=[TopicInfo(name=f"{prefix}-r{name}")],
                repartition_sink_topics=[f"{prefix}-r{other}"],
            )
            for name, other in (("0", "1"), ("1", "0"))
        ],
    )
    talk.say(joining(f"{prefix}-d", "m1", circle))
    unwritten = _reading(f"{prefix}-two")
    unwritten.subtopologies[0].repartition_source_topics = [TopicInfo(name=f"{prefix}-unwritten")]
    talk.say(joining(f"{prefix}-d", "m1", unwritten))
    talk.say(joining(f"{prefix}-d", "m1", _reading()))
    talk.say(StreamsGroupDescribeRequest(group_ids=[f"{prefix}-d"]))


def test_static_members(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_static_members")
    wire, group, topic = talk.wire, f"{talk.prefix}-group", f"{talk.prefix}-in"
    topology = _reading(topic)
    coordinator_is_ready(wire, group)
    wire.create_topic(topic, partitions=3)
    assign_at_once(wire, group)

    def join(member: str, instance: str, **others: Any) -> Any:
        request = joining(group, member, topology, instance_id=instance, **others)
        return say_until(talk, request, MISSING_SOURCE_TOPICS)

    def describe() -> None:
        talk.say(StreamsGroupDescribeRequest(group_ids=[group]))

    talk.title("A member with an instance id, and others that would be it")
    first = join("m1", "i1")
    tasks = first.active_tasks
    join("m2", "i1")
    talk.say(heartbeat(group, "m2", first.member_epoch, instance_id="i1"))
    talk.say(heartbeat(group, "m1", first.member_epoch, instance_id="i9"))
    talk.say(heartbeat(group, "m2", -2, instance_id="i1"))
    talk.say(heartbeat(group, "m2", -1, instance_id="i9"))
    talk.title("It leaves for a while; its successor has its tasks at once")
    talk.say(heartbeat(group, "m1", -2, instance_id="i1"))
    talk.say(heartbeat(group, "m1", first.member_epoch, instance_id="i1"))
    describe()
    second = join("m3", "i1", process_id="process-of-m1")
    assert second.active_tasks == tasks
    describe()
    talk.say(heartbeat(group, "m1", first.member_epoch, instance_id="i1"))
    talk.title("Under the same id, from another machine and process")
    talk.say(heartbeat(group, "m3", -2, instance_id="i1"))
    again = join("m3", "i1", process_id="process-of-m3", user_endpoint=Endpoint(host="here", port=7))
    describe()
    talk.title("Another one beside it, and both leave for good")
    other = join("m4", "i2")
    talk.say(owning(group, "m3", again.member_epoch, of_0=[0, 1, 2]))
    talk.say(heartbeat(group, "m4", -1, instance_id="i2"))
    assert other.member_epoch > again.member_epoch
    talk.say(heartbeat(group, "m3", -1, instance_id="i1"))
    describe()


def test_task_offsets_and_client_tags(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_offsets_and_tags")
    wire, group, topic = talk.wire, f"{talk.prefix}-group", f"{talk.prefix}-in"
    coordinator_is_ready(wire, group)
    wire.create_topic(topic, partitions=2)
    assign_at_once(wire, group, streams_rack_aware_assignment_tags="zone,rack")
    talk.title("A member that lacks a tag is told, but not in the oldest version")
    request = joining(group, "m1", _reading(topic), client_tags=[KeyValue(key="zone", value="a")])
    first = say_until(talk, request, MISSING_SOURCE_TOPICS)
    talk.say(heartbeat(group, "m1", first.member_epoch), 0)
    talk.title("Offsets of tasks")

    def offsets(*told: tuple[str, int, int]) -> list[TaskOffset]:
        return [
            TaskOffset(subtopology_id=name, partition=index, offset=offset) for name, index, offset in told
        ]

    epoch = first.member_epoch
    talk.say(heartbeat(group, "m1", epoch, task_offsets=offsets(("0", 0, 7), ("9", 5, 3))))
    talk.say(heartbeat(group, "m1", epoch, task_end_offsets=offsets(("0", 0, 9))))
    talk.say(heartbeat(group, "m1", epoch, task_offsets=offsets(("0", 1, 1), ("0", 1, 2))))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]), 1)
    talk.say(heartbeat(group, "m1", epoch, task_offsets=offsets(("0", 1, 8))))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]), 1)
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]), 0)
    talk.title("With both tags; tasks that warm up are named and not given")
    tags = [KeyValue(key="rack", value="r"), KeyValue(key="zone", value="a")]
    second = talk.say(heartbeat(group, "m1", epoch, client_tags=tags))
    warm = [TaskIds(subtopology_id="0", partitions=[0])]
    named = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": warm}
    talk.say(heartbeat(group, "m1", second.member_epoch, **named))
    warm[0].partitions = [7]
    talk.say(heartbeat(group, "m1", second.member_epoch, **named))


DESCRIPTION = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[
                TopologyDescriptionNode(
                    name="in", node_type=1, source_topics=["a", "b"], successors=["count"]
                ),
                TopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["out"]),
                TopologyDescriptionNode(name="out", node_type=3, sink_topic=None),
            ],
        )
    ],
    global_stores=[
        TopologyDescriptionGlobalStore(
            source=TopologyDescriptionNode(name="g", node_type=1, source_topics=["g"], successors=["p"]),
            processor=TopologyDescriptionNode(name="p", node_type=2, stores=["all"]),
        )
    ],
)


def describing(
    group: str, member: str, epoch: int, **others: Any
) -> StreamsGroupTopologyDescriptionUpdateRequest:
    fields = {"topology_description": DESCRIPTION, **others}
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group, member_id=member, topology_epoch=epoch, **fields
    )


def test_without_a_class_that_keeps_them_topologies_are_not_described(
    cluster: Cluster, unique_name: str
) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        coordinator_is_ready(wire, unique_name)
        joined = wire.call(joining(unique_name, "m1", _reading(f"{unique_name}-in")), 1)
        assert (joined.error_code, joined.topology_description_required) == (ErrorCode.NONE, False)
        answer = wire.call(describing(unique_name, "m1", 0))
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        request = StreamsGroupDescribeRequest(group_ids=[unique_name], include_topology_description=True)
        (group,) = wire.call(request, 1).groups
        assert (group.topology_description, group.topology_description_status) == (None, NOT_STORED)


def test_a_member_is_asked_for_the_topologys_description(start_own: StartOwn, unique_name: str) -> None:
    kept = {"group.streams.topology.description.plugin.class": IN_MEMORY_TOPOLOGY_DESCRIPTIONS}
    with start_own(settings=kept) as own, WireClient.connect(own.bootstrap) as wire:
        group, topic = unique_name, f"{unique_name}-in"
        coordinator_is_ready(wire, group)

        def described(include: bool = True) -> Any:
            request = StreamsGroupDescribeRequest(group_ids=[group], include_topology_description=include)
            return wire.call(request, 1).groups[0]

        # given: a member, which is asked once and not again at once
        first = wire.call(joining(group, "m1", _reading(topic)), 1)
        assert first.topology_description_required
        assert not wire.call(heartbeat(group, "m1", first.member_epoch), 1).topology_description_required
        assert described().topology_description_status == NOT_STORED
        # when: descriptions that can't be taken
        unknown_node = TopologyDescriptionNode(name="x", node_type=4)
        unknown_type = TopologyDescription(
            subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[unknown_node])]
        )
        store = TopologyDescriptionGlobalStore(
            source=DESCRIPTION.global_stores[0].processor, processor=DESCRIPTION.global_stores[0].source
        )
        wrong = [
            (describing(group, "m9", 0), ErrorCode.UNKNOWN_MEMBER_ID),
            (describing("nobodys", "m1", 0), ErrorCode.GROUP_ID_NOT_FOUND),
            (describing(group, "m1", 1), ErrorCode.INVALID_REQUEST),
            (describing(group, "", 0), ErrorCode.INVALID_REQUEST),
            (describing("", "m1", 0), ErrorCode.INVALID_REQUEST),
            (describing(group, "m1", 0, topology_description=unknown_type), ErrorCode.INVALID_REQUEST),
            (
                describing(group, "m1", 0, topology_description=TopologyDescription(global_stores=[store])),
                ErrorCode.INVALID_REQUEST,
            ),
        ]
        for request, error in wrong:
            assert wire.call(request).error_code == error, request
        assert described().topology_description_status == NOT_STORED
        # when: one that can
        assert wire.call(describing(group, "m1", 0)).error_code == ErrorCode.NONE
        # then
        assert described(include=False).topology_description_status == NOT_REQUESTED
        found = described()
        assert found.topology_description_status == AVAILABLE
        nodes = found.topology_description.subtopologies[0].nodes
        assert [(node.name, node.node_type, node.sink_topic) for node in nodes] == [
            ("in", 1, None), ("count", 2, None), ("out", 3, None),
        ]  # fmt: skip
        assert sorted(nodes[0].source_topics) == ["a", "b"]
        assert (nodes[1].stores, nodes[1].successors) == (["counts"], ["out"])
        assert found.topology_description.global_stores[0].processor.stores == ["all"]
        # and a second member is not asked
        second = wire.call(joining(group, "m2", _reading(topic)), 1)
        assert not second.topology_description_required


def test_the_life_of_a_streams_group(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_life")
    wire, prefix = talk.wire, talk.prefix
    group, topic = f"{prefix}-group", f"{prefix}-in"
    topology = counting(prefix)
    coordinator_is_ready(wire, group)
    assign_at_once(wire, group)
    talk.title("The first member, whose source is not there")
    first = talk.say(joining(group, "m1", topology, client_tags=[KeyValue(key="zone", value="a")]))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=True))
    wire.create_topic(topic, partitions=2)
    talk.title("It is there; now the internal topics are missing, and are made")
    second = say_until(talk, heartbeat(group, "m1", first.member_epoch), MISSING_SOURCE_TOPICS)
    third = say_until(talk, heartbeat(group, "m1", second.member_epoch), MISSING_INTERNAL_TOPICS)
    talk.say(
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=TOPIC_RESOURCE, resource_name=f"{prefix}-{name}", configuration_keys=[key]
                )
                for name, key in (("repartition", "retention.ms"), ("changelog", "cleanup.policy"))
            ]
        )
    )
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    epoch = third.member_epoch
    talk.title("The epoch before, and epochs that are not the member's")
    everything = {"of_0": [0, 1], "of_1": [0, 1]}
    talk.say(owning(group, "m1", second.member_epoch))
    talk.say(owning(group, "m1", epoch, **everything))
    talk.say(owning(group, "m1", second.member_epoch, **everything))
    talk.say(heartbeat(group, "m1", second.member_epoch))
    talk.say(heartbeat(group, "m1", epoch + 1))
    talk.say(heartbeat(group, "m2", epoch))
    talk.say(owning(group, "m1", epoch, of_2=[0]))
    talk.say(owning(group, "m1", epoch, of_0=[2]))
    talk.title("A second member gets what the first has given back")
    talk.say(joining(group, "m2", topology))
    talk.say(owning(group, "m1", epoch, **everything))
    talk.say(heartbeat(group, "m2", epoch + 1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    talk.say(commit(group, "m1", epoch, topic, 1), 9)
    talk.say(owning(group, "m1", epoch, of_0=[0], of_1=[0]))
    talk.say(heartbeat(group, "m2", epoch + 1))
    talk.say(heartbeat(group, "m2", epoch + 1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    talk.title("Offsets")
    talk.say(commit(group, "m1", epoch + 1, topic), 9)
    talk.say(commit(group, "m1", epoch, topic), 9)
    talk.say(commit(group, "m1", epoch, topic, 1), 9)
    talk.say(commit(group, "m2", epoch, topic, 1), 9)
    talk.say(commit(group, "m1", epoch + 2, topic), 9)
    talk.say(commit(group, "m3", epoch, topic), 9)
    talk.say(commit(group, "", -1, topic), 9)
    talk.say(commit(group, "m1", epoch + 1, topic), 8)
    talk.say(fetch(group, "m1", epoch + 1, topic), 9)
    talk.say(fetch(group, "m1", epoch, topic), 9)
    talk.say(fetch(group, "m3", epoch + 1, topic), 9)
    talk.say(fetch(group, None, -1, topic), 9)
    deletion = OffsetDeleteRequestTopic(
        name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    talk.say(OffsetDeleteRequest(group_id=group, topics=[deletion]))
    talk.title("Other topologies")
    talk.say(joining(group, "m1", counting(prefix, epoch=0)))
    talk.say(joining(group, "m1", counting(prefix, epoch=2)))
    talk.say(joining(group, "m1", counting(prefix, source="elsewhere")))
    talk.say(joining(group, "m1", topology))
    talk.title("How others see the group")
    keep = of_this_test(prefix)
    talk.say(ListGroupsRequest(types_filter=["streams"]), keep=keep)
    talk.say(ListGroupsRequest(types_filter=["classic"]), keep=keep)
    talk.say(DescribeGroupsRequest(groups=[group]))
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.say(_classic_join(group))
    talk.say(HeartbeatRequest(group_id=group, generation_id=epoch, member_id="m1"))
    talk.say(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="m1")]))
    talk.title("A member asks the whole application to stop")
    described = wire.call(StreamsGroupDescribeRequest(group_ids=[group])).groups[0]
    epochs = {member.member_id: member.member_epoch for member in described.members}
    talk.say(heartbeat(group, "m2", epochs["m2"], shutdown_application=True))
    talk.say(heartbeat(group, "m1", epochs["m1"]))
    talk.title("They leave")
    talk.say(heartbeat(group, "m3", -1))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(heartbeat(group, "m2", -1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    talk.say(ListGroupsRequest(states_filter=["empty"]), keep=keep)
    talk.say(commit(group, "", -1, topic, 1), 9)
    talk.title("A classic member takes the id over, and keeps the offsets; then a streams member does")
    talk.say(_classic_join(group))
    talk.say(fetch(group, None, -1, topic), 9)
    talk.say(joining(group, "m1", topology))
    talk.say(fetch(group, None, -1, topic), 9)
    talk.say(heartbeat(group, "m1", -1))
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    talk.say(fetch(group, None, -1, topic), 9)


def _classic_join(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_standbys_and_endpoints(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("streams_group_standbys")
    wire, prefix = talk.wire, talk.prefix
    group, topic = f"{prefix}-group", f"{prefix}-in"
    wire.create_topic(topic, partitions=1)
    wire.create_topic(f"{prefix}-changelog", partitions=1)
    coordinator_is_ready(wire, group)
    assign_at_once(wire, group, streams_num_standby_replicas="1")
    topology = _reading(topic)
    topology.subtopologies[0].state_changelog_topics = [TopicInfo(name=f"{prefix}-changelog")]
    talk.title("A member with an endpoint has the only task")
    endpoint = Endpoint(host="one", port=8080)
    probe = joining(f"{prefix}-probe", "m1", topology)
    wait_for(
        lambda: not wire.call(probe).status or wire.call(probe).status[-1].status_code == ASSIGNMENT_DELAYED
    )
    first = talk.say(joining(group, "m1", topology, user_endpoint=endpoint))
    talk.title("Another one of the same process gets nothing, one of another process the standby")
    talk.say(joining(group, "m2", topology, process_id="process-of-m1"))
    talk.say(joining(group, "m3", topology, user_endpoint=Endpoint(host="three", port=8080)))
    described = wire.call(StreamsGroupDescribeRequest(group_ids=[group])).groups[0]
    talk.say(
        heartbeat(
            group, "m1", first.member_epoch, endpoint_information_epoch=first.endpoint_information_epoch
        )
    )
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    assert described.group_epoch > first.member_epoch
    talk.title("When the active member leaves, the standby takes over")
    talk.say(heartbeat(group, "m1", -1))
    epochs = {
        member.member_id: member.member_epoch
        for member in wire.call(StreamsGroupDescribeRequest(group_ids=[group])).groups[0].members
    }
    standby = [TaskIds(subtopology_id="0", partitions=[0])]
    told = talk.say(
        heartbeat(group, "m3", epochs["m3"], active_tasks=[], standby_tasks=standby, warmup_tasks=[])
    )
    talk.say(heartbeat(group, "m3", told.member_epoch, active_tasks=[], standby_tasks=[], warmup_tasks=[]))
    talk.say(heartbeat(group, "m3", told.member_epoch + 1))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))


def test_the_feature_is_finalized(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        answer = wire.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels[STREAMS_VERSION] == 1


def test_a_broker_without_the_streams_protocol_says_so(start_own: StartOwn) -> None:
    settings = {"group.coordinator.rebalance.protocols": "classic,consumer"}
    with start_own(settings=settings) as own, WireClient.connect(own.bootstrap) as wire:
        answer = wire.call(joining("g", "m1", _reading("t")))
        described = wire.call(StreamsGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert answer.error_code == described.error_code == ErrorCode.UNSUPPORTED_VERSION
