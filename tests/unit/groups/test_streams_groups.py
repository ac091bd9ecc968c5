"""Streams groups in a shard whose clock, topics and log the test controls; and their pure parts."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.core.groups.api import SettingsChanged
from ottla.core.groups.settings import GroupSettings, Settings
from ottla.core.groups.streams.api import CreateInternalTopics, InternalTopic, InternalTopicsCreated
from ottla.core.groups.streams.assignor import PreviousMember, TaskWidth, assign
from ottla.core.groups.streams.configured import Status, configure
from ottla.core.groups.streams.tasks import TargetTasks
from ottla.core.groups.streams.topology import InvalidTopology, topology_from
from ottla.core.groups.topics import TopicDescription, TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from support.core.durable_state import streams_groups
from support.core.group_shard import ShardDriver

GROUP = "app"
AT_ONCE = GroupSettings(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=0)


def topics(**counts: int) -> dict[str, TopicDescription]:
    return {
        name: TopicDescription(uuid.uuid5(uuid.NAMESPACE_OID, name), name, (frozenset[str](),) * count)
        for name, count in counts.items()
    }


def reading(*names: str, changelog: str | None = None) -> Topology:
    changelogs = [] if changelog is None else [TopicInfo(name=changelog)]
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=list(names), state_changelog_topics=changelogs)
        ],
    )


class App:
    """One application's group in a shard."""

    def __init__(self, settings: GroupSettings = AT_ONCE, topology: Topology | None = None) -> None:
        self.driver = ShardDriver(settings)
        self.topology = topology or reading("in")

    def beat(self, member: str, epoch: int, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member, member_epoch=epoch, **fields)
        request_id = self.driver.send(request, 0)
        return self.driver.replies.get(request_id)

    def join(self, member: str, **fields: Any) -> Any:
        given = {"process_id": member, "rebalance_timeout_ms": 5_000, "topology": self.topology, **fields}
        return self.beat(member, 0, active_tasks=[], standby_tasks=[], warmup_tasks=[], **given)

    def own(self, member: str, epoch: int, *partitions: int) -> Any:
        active = [TaskIds(subtopology_id="0", partitions=list(partitions))] if partitions else []
        return self.beat(member, epoch, active_tasks=active, standby_tasks=[], warmup_tasks=[])

    def described(self) -> Any:
        request_id = self.driver.send(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
        return self.driver.replies[request_id].groups[0]

    def member_ids(self) -> list[str]:
        return [member.member_id for member in self.described().members]


def active(answer: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: each.partitions for each in answer.active_tasks}


def statuses(answer: Any) -> list[Status]:
    return [Status(each.status_code) for each in answer.status]


# Membership


def test_the_first_assignment_waits_for_more_members() -> None:
    app = App(GroupSettings(streams_initial_rebalance_delay_ms=3_000))
    app.driver.change_topics(topics(**{"in": 2}))
    # when
    first = app.join("m1")
    app.driver.advance(1_000)
    second = app.join("m2")
    # then
    assert statuses(first) == statuses(second) == [Status.ASSIGNMENT_DELAYED]
    assert active(first) == active(second) == {}
    # when
    app.driver.advance(2_000)
    # then
    assert active(app.beat("m1", first.member_epoch)) == {"0": [0]}
    assert active(app.beat("m2", second.member_epoch)) == {"0": [1]}


def test_the_next_assignment_waits_for_the_interval() -> None:
    app = App(GroupSettings(streams_initial_rebalance_delay_ms=0, streams_assignment_interval_ms=1_000))
    app.driver.change_topics(topics(**{"in": 2}))
    app.join("m1")
    # when
    early = app.join("m2")
    app.driver.advance(1_000)
    later = app.beat("m2", early.member_epoch)
    # then
    assert statuses(early) == [Status.ASSIGNMENT_DELAYED]
    assert later.member_epoch == early.member_epoch + 1


def test_a_task_is_given_on_when_it_was_given_back() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 2}))
    first = app.join("m1")
    assert active(first) == {"0": [0, 1]}
    second = app.join("m2")
    # when it is told, but still has the task
    told = app.own("m1", first.member_epoch, 0, 1)
    # then
    assert active(told) == {"0": [0]} and told.member_epoch == first.member_epoch
    assert app.beat("m2", second.member_epoch).active_tasks is None
    # when
    assert app.own("m1", first.member_epoch, 0).member_epoch == second.member_epoch
    # then
    assert active(app.beat("m2", second.member_epoch)) == {"0": [1]}
    assert app.described().group_state == "Stable"


def test_a_member_that_keeps_its_tasks_is_fenced() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 2}))
    first = app.join("m1")
    second = app.join("m2")
    app.own("m1", first.member_epoch, 0, 1)
    # when
    app.driver.advance(5_000)
    # then
    assert app.member_ids() == ["m2"]
    assert app.own("m1", first.member_epoch, 0, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert active(app.beat("m2", second.member_epoch)) == {"0": [0, 1]}


def test_a_silent_member_is_taken_out_also_after_a_reload() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    first = app.join("m1")
    app.driver.reload()
    app.driver.advance(44_000)
    assert app.beat("m1", first.member_epoch).error_code == ErrorCode.NONE
    # when
    app.driver.advance(44_000)
    assert app.member_ids() == ["m1"]
    app.driver.advance(1_000)
    # then
    assert app.described().group_state == "Empty"


def test_a_group_has_room_for_so_many() -> None:
    app = App(GroupSettings(streams_max_size=1, streams_initial_rebalance_delay_ms=0))
    app.join("m1")
    assert app.join("m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_heartbeat_whose_records_are_refused_changes_nothing() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    app.driver.hold_appends = True
    assert app.join("m1") is None
    # when
    app.driver.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    # then
    assert app.driver.replies[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert app.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    app.driver.hold_appends = False
    assert active(app.join("m1")) == {"0": [0]}


def test_two_that_join_at_once_are_two_decisions() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 2}))
    app.driver.hold_appends = True
    app.join("m1")
    app.join("m2")
    assert len(app.driver.held) == 1, "the second waits for the first"
    # when
    app.driver.append_done()
    app.driver.append_done()
    # then
    answers = [app.driver.replies[request_id] for request_id in (0, 1)]
    assert [answer.member_epoch for answer in answers] == [2, 3]
    assert [active(answer) for answer in answers] == [{"0": [0, 1]}, {}]


def test_other_settings_of_the_assignor_make_a_new_epoch() -> None:
    app = App(topology=reading("in", changelog="changelog"))
    app.driver.change_topics(topics(**{"in": 1, "changelog": 1}))
    app.join("m1")
    second = app.join("m2")
    # when
    overrides = {GROUP: {"streams.num.standby.replicas": 1}}
    app.driver.step(SettingsChanged(app.driver.now, Settings(AT_ONCE, overrides)))
    answer = app.beat("m2", second.member_epoch)
    # then
    assert answer.member_epoch == second.member_epoch + 1
    assert [each.partitions for each in answer.standby_tasks] == [[0]]


# Topics


def test_missing_internal_topics_are_asked_for_once() -> None:
    app = App(topology=reading("in", changelog="changelog"))
    app.driver.change_topics(topics(**{"in": 3}))
    # when
    answer = app.join("m1")
    app.beat("m1", answer.member_epoch)
    # then
    assert statuses(answer) == [Status.MISSING_INTERNAL_TOPICS]
    assert app.driver.other_effects == [CreateInternalTopics(GROUP, (InternalTopic("changelog", 3, 0, ()),))]
    # when
    app.driver.change_topics(topics(changelog=3))
    # then
    assert active(app.beat("m1", answer.member_epoch)) == {"0": [0, 1, 2]}


def test_topics_that_could_not_be_made_are_tried_again_later() -> None:
    app = App(topology=reading("in", changelog="changelog"))
    app.driver.change_topics(topics(**{"in": 1}))
    answer = app.join("m1")
    # when
    app.driver.step(InternalTopicsCreated(app.driver.now, GROUP, ("changelog",), {"changelog": "no room"}))
    told = app.beat("m1", answer.member_epoch)
    # then
    assert told.status[0].status_detail.endswith("; Creation failed: changelog (no room).")
    assert len(app.driver.other_effects) == 1
    # when
    app.driver.advance(10_000)
    app.beat("m1", answer.member_epoch)
    # then
    assert len(app.driver.other_effects) == 2


def test_more_partitions_are_more_tasks() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    answer = app.join("m1")
    # when
    app.driver.change_topics(topics(**{"in": 3}))
    # then
    assert active(app.beat("m1", answer.member_epoch)) == {"0": [0, 1, 2]}


def test_topics_that_change_while_a_group_is_being_made_are_seen() -> None:
    app = App()
    app.driver.hold_appends = True
    app.join("m1")
    # when
    app.driver.change_topics(topics(**{"in": 2}))
    app.driver.append_done()
    app.driver.hold_appends = False
    # then
    told = app.driver.replies[0]
    assert statuses(told) == [Status.MISSING_SOURCE_TOPICS]
    assert active(app.beat("m1", told.member_epoch)) == {"0": [0, 1]}


def test_a_source_that_goes_stops_the_tasks() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    answer = app.join("m1")
    # when
    app.driver.topic_deleted("in")
    told = app.own("m1", answer.member_epoch, 0)
    # then
    assert statuses(told) == [Status.MISSING_SOURCE_TOPICS]
    assert active(told) == {}
    assert app.described().group_state == "NotReady"


# Beside other kinds


def classic_join() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_classic_group_and_a_streams_group_take_turns_with_an_id() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    answer = app.join("m1")
    refused = app.driver.send(classic_join(), 0)
    assert app.driver.replies[refused].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # when
    app.beat("m1", -1)
    app.driver.send(classic_join(), 0)
    app.driver.advance(3_000)
    # then
    assert app.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert app.join("m1").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    # when
    app.driver.advance(60_000)
    # then
    assert app.join("m1").member_epoch == answer.member_epoch
    assert streams_groups(app.driver.reloaded_copy()) == streams_groups(app.driver.shard)


def test_a_group_that_is_being_made_is_of_one_kind() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    app.driver.hold_appends = True
    app.join("m1")
    # when
    classic = app.driver.send(classic_join(), 0)
    while app.driver.held:
        app.driver.append_done()
    # then
    assert app.driver.replies[classic].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert app.member_ids() == ["m1"]


def test_an_id_is_free_again_when_its_group_could_not_be_made() -> None:
    app = App()
    app.driver.hold_appends = True
    app.join("m1")
    assert app.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    app.driver.append_failed(ErrorCode.MESSAGE_TOO_LARGE)
    app.driver.hold_appends = False
    # when
    classic = app.driver.send(classic_join(), 0)
    app.driver.advance(3_000)
    # then
    assert app.driver.replies[classic].error_code == ErrorCode.NONE


def test_a_member_that_is_refused_leaves_a_classic_group_alone() -> None:
    app = App(topology=reading())
    joined = app.driver.send(classic_join(), 9)  # MEMBER_ID_REQUIRED: a group without members
    member_id = app.driver.replies[joined].member_id
    assert app.join("m1").error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    # when
    request = classic_join()
    request.member_id = member_id
    again = app.driver.send(request, 9)
    app.driver.advance(3_000)
    # then
    assert app.driver.replies[again].error_code == ErrorCode.NONE


def test_topics_that_changed_are_not_overlooked_when_a_heartbeat_is_refused() -> None:
    app = App()
    app.driver.change_topics(topics(**{"in": 1}))
    answer = app.join("m1")
    app.driver.change_topics(topics(**{"in": 3}))
    # when
    assert app.own("m1", answer.member_epoch, 7).error_code == ErrorCode.INVALID_REQUEST
    # then
    assert active(app.own("m1", answer.member_epoch, 0)) == {"0": [0, 1, 2]}


def test_an_empty_group_goes_with_its_offsets() -> None:
    app = App(GroupSettings(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=10_000))
    app.driver.change_topics(topics(**{"in": 1}))
    app.join("m1")
    app.beat("m1", -1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    commit = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="in", partitions=[partition])]
    )
    app.driver.send(commit, 9)
    # when
    app.driver.advance(20_000)
    # then
    assert app.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert streams_groups(app.driver.reloaded_copy()) == {}


def test_a_group_without_members_can_be_deleted_and_is_listed_until_then() -> None:
    app = App()
    app.join("m1")
    app.beat("m1", -1)
    listed = app.driver.send(ListGroupsRequest(states_filter=["empty"], types_filter=["streams"]), 5)
    assert [group.group_id for group in app.driver.replies[listed].groups] == [GROUP]
    # when
    app.driver.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    # then
    assert app.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


# The topology on the cluster's topics


def test_copartitioned_repartition_topics_take_the_width_of_the_source() -> None:
    given = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["narrow"], repartition_sink_topics=["r"]),
            Subtopology(
                subtopology_id="1",
                source_topics=["wide"],
                repartition_source_topics=[TopicInfo(name="r")],
                state_changelog_topics=[TopicInfo(name="c")],
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            ),
        ],
    )
    configured = configure(topology_from(given), TopicsView(topics(narrow=2, wide=5)))
    assert {topic.name: topic.partition_count for topic in configured.missing_topics} == {"r": 5, "c": 5}
    assert {name: each.task_count for name, each in configured.subtopologies.items()} == {"0": 2, "1": 5}


def test_a_fixed_repartition_topic_outside_of_a_copartition_group_does_not_affect_it() -> None:
    given = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=["in"], repartition_sink_topics=["a", "b", "fixed"]
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="a"), TopicInfo(name="b")],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0, 1])],
            ),
            Subtopology(
                subtopology_id="2", repartition_source_topics=[TopicInfo(name="fixed", partitions=7)]
            ),
        ],
    )
    configured = configure(topology_from(given), TopicsView(topics(**{"in": 2})))
    missing = {topic.name: topic.partition_count for topic in configured.missing_topics}
    assert missing == {"a": 2, "b": 2, "fixed": 7}


@pytest.mark.parametrize(
    "group",
    [CopartitionGroup(source_topics=[1]), CopartitionGroup(repartition_source_topics=[-1])],
    ids=["beyond", "negative"],
)
def test_a_copartition_group_of_topics_that_are_not_there_is_refused(group: CopartitionGroup) -> None:
    given = reading("in")
    given.subtopologies[0].copartition_groups = [group]
    with pytest.raises(InvalidTopology, match="names a topic that it lacks"):
        configure(topology_from(given), TopicsView(topics(**{"in": 1})))


def test_a_topology_outlives_its_record() -> None:
    given = reading("in", changelog="c")
    given.subtopologies[0].copartition_groups = [CopartitionGroup(source_topics=[0])]
    topology = topology_from(given)
    assert topology_from(topology.to_record_value()) == topology


# The assignor


def test_a_standby_becomes_active_where_it_is() -> None:
    had_standby = TargetTasks({"0": frozenset({0})}, {"0": frozenset({1})})
    targets = assign(
        [PreviousMember("new", "p1", TargetTasks()), PreviousMember("old", "p2", had_standby)],
        {"0": TaskWidth(3, True)},
        1,
    )
    assert targets["old"].active["0"] >= {0, 1}
    assert targets["new"].standby["0"] >= {0, 1}


def test_a_process_with_more_members_gets_more_tasks() -> None:
    members = [PreviousMember(name, process, TargetTasks()) for name, process in ("aP", "bP", "cQ")]
    targets = assign(members, {"0": TaskWidth(6, False)}, 0)
    assert [sum(map(len, targets[name].active.values())) for name in "abc"] == [2, 2, 2]
