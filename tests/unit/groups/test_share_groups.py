"""Share groups of a shard, by examples: members, epochs, partitions' state, administrators, records."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.share import records
from ottla.core.groups.share.assignor import SharePartition, assign, share_out
from ottla.core.groups.share.group import ShareGroup, ShareMember, StatePartitions, TopicState, replay
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from support.core.durable_state import share_group, share_groups
from support.core.share_groups import ShareDriver

T, U = uuid.UUID(int=1), uuid.UUID(int=2)
SESSION_TIMEOUT_MS = 45_000
RETRY_INTERVAL_MS = 30_000
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def a_group_of_one(partitions: int = 2) -> ShareDriver:
    """The member m1 reads all of the topic t, in epoch 3."""
    world = ShareDriver()
    world.create_topic("t", partitions)
    assert world.heartbeat("m1", 0, ["t"]).member_epoch == 2
    answer = world.heartbeat("m1", 2)
    assert answer.member_epoch == 3
    assert assigned(answer) == {T: list(range(partitions))}
    return world


def assigned(answer: Any) -> dict[uuid.UUID, list[int]]:
    return {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}


def alter(topic: str, **offsets: int) -> AlterShareGroupOffsetsRequest:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=int(index[1:]), start_offset=offset)
        for index, offset in offsets.items()
    ]
    altered = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    return AlterShareGroupOffsetsRequest(group_id="g", topics=[altered])


def delete_offsets(topic: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )


def delete_group(world: ShareDriver) -> int:
    answer: Any = world.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    return int(answer.results[0].error_code)


class TestMembers:
    def test_a_member_gets_no_partitions_before_they_have_state(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 2)
        world.hold_answers = True
        assert assigned(world.heartbeat("m1", 0, ["t"])) == {}
        # when
        unchanged = world.heartbeat("m1", 2)
        # then
        assert (unchanged.member_epoch, unchanged.assignment) == (2, None)

    def test_two_members_share_a_partition(self) -> None:
        world = a_group_of_one(partitions=1)
        # when
        answer = world.heartbeat("m2", 0, ["t"])
        # then
        assert assigned(answer) == {T: [0]}
        assert world.heartbeat("m1", 3).member_epoch == 4
        assert world.group().members["m1"].assigned == {T: {0}}

    def test_a_heartbeat_whose_answer_was_lost_may_come_again(self) -> None:
        world = a_group_of_one()
        assert world.heartbeat("m1", 2).error_code == ErrorCode.NONE
        assert world.heartbeat("m1", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert world.heartbeat("m1", 4).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    def test_a_full_group_refuses_new_members(self) -> None:
        world = ShareDriver(GroupSettings(share_max_size=1))
        world.create_topic("t", 1)
        world.heartbeat("m1", 0, ["t"])
        assert world.heartbeat("m2", 0, ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert world.heartbeat("m1", 0, ["t"]).error_code == ErrorCode.NONE

    def test_a_silent_member_is_taken_out(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m2", 0, ["t"])
        world.shard.advance(SESSION_TIMEOUT_MS - 1)
        world.heartbeat("m1", 3)
        # when
        world.shard.advance(1)
        # then
        assert list(world.group().members) == ["m1"]
        assert assigned(world.heartbeat("m1", 4)) == {T: [0, 1]}

    def test_a_session_that_ends_beside_its_heartbeat_does_not_end(self) -> None:
        world = a_group_of_one()
        world.shard.hold_appends = True
        world.shard.advance(SESSION_TIMEOUT_MS - 1)
        # given: another member's decision is on its way, and a heartbeat waits for it
        world.send(_heartbeat("m2", 0, "t"), 1)
        world.send(_heartbeat("m1", 3), 1)
        # when
        world.shard.advance(1)
        while world.shard.held:
            world.shard.append_done()
        # then
        assert set(world.group().members) == {"m1", "m2"}

    def test_a_leave_that_is_not_written_leaves_the_member_in(self) -> None:
        world = a_group_of_one()
        world.shard.hold_appends = True
        request_id = world.send(_heartbeat("m1", -1), 1)
        # when
        world.shard.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
        # then
        assert world.shard.replies[request_id].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.shard.hold_appends = False
        assert world.heartbeat("m1", 3).error_code == ErrorCode.NONE
        # and its departure is noticed all the same
        world.shard.advance(SESSION_TIMEOUT_MS)
        assert not world.group().members

    def test_a_join_that_was_written_late_has_a_session(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.shard.hold_appends = True
        request_id = world.send(_heartbeat("m1", 0, "t"), 1)
        # given: the append takes so long that the member is told to try again
        world.shard.advance(5_000)
        assert world.shard.replies[request_id].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        # when
        world.shard.hold_appends = False
        world.shard.append_done()
        assert list(world.group().members) == ["m1"]
        world.shard.advance(SESSION_TIMEOUT_MS)
        # then
        assert not world.group().members

    def test_assignments_keep_their_distance(self) -> None:
        world = ShareDriver(GroupSettings(share_assignment_interval_ms=1_000))
        world.create_topic("t", 1)
        world.heartbeat("m1", 0, ["t"])
        # when
        early = world.heartbeat("m1", 2)
        # then: the epoch goes up, the target waits
        assert (early.member_epoch, world.group().epoch) == (2, 3)
        world.shard.advance(1_000)
        assert assigned(world.heartbeat("m1", 2)) == {T: [0]}

    def test_a_member_without_topics_has_no_partitions(self) -> None:
        world = a_group_of_one()
        assert assigned(world.heartbeat("m1", 3, [])) == {}

    def test_a_new_coordinator_gives_every_member_a_session(self) -> None:
        world = a_group_of_one()
        world.shard.advance(SESSION_TIMEOUT_MS - 1)
        world.shard.reload()
        world.shard.advance(SESSION_TIMEOUT_MS - 1)
        assert world.heartbeat("m1", 3).error_code == ErrorCode.NONE

    def test_a_group_that_is_being_made_is_of_one_kind(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.shard.hold_appends = True
        world.send(_heartbeat("m1", 0, "t"), 1)
        # when: a client commits an offset before the first record is written, and another one joins
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        commit = world.send(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
        protocol = JoinGroupRequestProtocol(name="range")
        join = world.send(
            JoinGroupRequest(
                group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
            ),
            5,
        )
        while world.shard.held:
            world.shard.append_done()
        # then
        assert world.shard.replies[join].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        (answer,) = world.shard.replies[commit].topics
        assert answer.partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


class TestTopics:
    def test_partitions_that_are_added_are_read_after_their_state_began(self) -> None:
        world = a_group_of_one()
        # when
        world.set_topic("t", T, 3)
        # then: one heartbeat to see the topic, one to be given the partition
        assert world.heartbeat("m1", 3).member_epoch == 4
        assert assigned(world.heartbeat("m1", 4)) == {T: [0, 1, 2]}

    def test_a_topic_that_changes_in_nothing_changes_no_epoch(self) -> None:
        world = a_group_of_one()
        world.set_topic("t", T, 2)
        assert world.heartbeat("m1", 3).member_epoch == 3

    def test_a_deleted_topic_is_forgotten(self) -> None:
        world = a_group_of_one()
        # when
        world.delete_topic("t")
        # then
        assert world.group().states == StatePartitions()
        assert assigned(world.heartbeat("m1", 3)) == {}

    def test_a_topic_made_anew_has_state_of_its_own(self) -> None:
        world = a_group_of_one()
        world.delete_topic("t")
        new = world.create_topic("t", 1)
        # when
        world.heartbeat("m1", 3)
        # then
        assert assigned(world.heartbeat("m1", 4)) == {new: [0]}
        assert set(world.states) == {("g", new, 0)}

    def test_a_change_that_was_not_written_is_seen_again(self) -> None:
        world = a_group_of_one()
        world.set_topic("t", T, 3)
        world.shard.hold_appends = True
        world.send(_heartbeat("m1", 3), 1)
        # when
        world.shard.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
        world.shard.hold_appends = False
        # then
        assert world.heartbeat("m1", 3).member_epoch == 4
        assert assigned(world.heartbeat("m1", 4)) == {T: [0, 1, 2]}


class TestStateOfPartitions:
    def test_failed_initialization_is_retried_with_the_next_heartbeat(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 2)
        world.hold_answers = True
        world.heartbeat("m1", 0, ["t"])
        # when
        world.answer(lambda _, partition: UNAVAILABLE if partition == 1 else ErrorCode.NONE)
        # then
        assert world.group().initialized == {T: {0}}
        assert assigned(world.heartbeat("m1", 2)) == {T: [0]}
        (asked,) = world.asks
        assert [each.partition for each in asked.request.topics[0].partitions] == [1]

    def test_an_answer_that_never_came_is_asked_for_again_after_a_while(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.hold_answers = True
        world.heartbeat("m1", 0, ["t"])
        world.lose_asks(performed=False)
        world.shard.reload()
        # when
        world.shard.advance(RETRY_INTERVAL_MS - 1)
        world.heartbeat("m1", 2)
        assert not world.asks
        world.shard.advance(1)
        world.hold_answers = False
        world.heartbeat("m1", 2)
        # then
        assert assigned(world.heartbeat("m1", 2)) == {T: [0]}

    def test_the_share_coordinator_is_asked_one_thing_at_a_time_about_a_group(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.create_topic("u", 1)
        world.hold_answers = True
        world.heartbeat("m1", 0, ["t"])
        world.heartbeat("m1", 2, ["u"])
        assert len(world.asks) == 1
        # when
        world.answer()
        # then
        (asked,) = world.asks
        assert asked.request.topics[0].topic_id == U

    def test_an_answer_to_a_group_that_is_gone_is_no_harm(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.hold_answers = True
        world.heartbeat("m1", 0, ["t"])
        world.heartbeat("m1", -1)
        request_id = world.send(DeleteGroupsRequest(groups_names=["g"]), 2)
        # when: the initialization is answered, then the deletion that was requested after it
        world.answer()
        world.answer()
        # then
        assert world.shard.replies[request_id].results[0].error_code == ErrorCode.NONE
        assert not world.states
        assert share_groups(world.shard.shard) == {}

    def test_initialization_before_a_pending_deletion_does_not_count(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.hold_answers = True
        # given: initialization, then deletion with the group, then initialization for a new member
        world.send(alter("t", p0=5))
        world.send(DeleteGroupsRequest(groups_names=["g"]), 2)
        world.heartbeat("m1", 0, ["t"])
        # when: the first of the three is answered
        world.answer()
        # then
        assert world.group().initialized == {}
        world.hold_answers = False
        world.settle()
        assert world.group().initialized == {T: {0}}
        assert world.states == {("g", T, 0): -1}


class TestAdministrators:
    def test_offsets_of_a_group_with_members_stay_as_they_are(self) -> None:
        world = a_group_of_one()
        assert world.ask(alter("t", p0=5)).error_code == ErrorCode.NON_EMPTY_GROUP
        assert world.ask(delete_offsets("t")).error_code == ErrorCode.NON_EMPTY_GROUP
        assert delete_group(world) == ErrorCode.NON_EMPTY_GROUP
        assert set(world.states.values()) == {-1}

    def test_altered_offsets_begin_the_state_anew(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        # when
        answer = world.ask(alter("t", p1=7, p9=1))
        # then
        assert [(each.partition_index, each.error_code) for each in answer.responses[0].partitions] == [
            (1, ErrorCode.NONE),
            (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert world.states == {("g", T, 0): -1, ("g", T, 1): 7}

    def test_offsets_that_could_not_be_altered_have_the_share_coordinators_error(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 2)
        world.hold_answers = True
        request_id = world.send(alter("t", p0=5, p1=6))
        # when
        world.answer(lambda _, partition: UNAVAILABLE if partition == 0 else ErrorCode.NONE)
        # then
        answer = world.shard.replies[request_id]
        assert [each.error_code for each in answer.responses[0].partitions] == [UNAVAILABLE, ErrorCode.NONE]
        assert world.group().initialized == {T: {1}}

    def test_deleted_offsets_are_gone_with_the_share_coordinator(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        # when
        answer = world.ask(delete_offsets("t"))
        # then
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert not world.states
        assert world.ask(delete_offsets("t")).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_deletion_that_failed_can_be_repeated(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        world.hold_answers = True
        request_id = world.send(delete_offsets("t"))
        world.answer(lambda _, partition: UNAVAILABLE if partition else ErrorCode.NONE)
        assert world.shard.replies[request_id].responses[0].error_code == UNAVAILABLE
        assert world.group().states == StatePartitions(deleting={T: "t"})
        # when
        world.hold_answers = False
        answer = world.ask(delete_offsets("t"))
        # then
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert world.group().states == StatePartitions()

    def test_a_group_stays_if_its_state_cannot_be_deleted(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        world.hold_answers = True
        request_id = world.send(DeleteGroupsRequest(groups_names=["g"]), 2)
        world.answer(lambda *_: UNAVAILABLE)
        assert world.shard.replies[request_id].results[0].error_code == UNAVAILABLE
        # when
        world.hold_answers = False
        # then
        assert delete_group(world) == ErrorCode.NONE
        assert share_groups(world.shard.shard) == {}

    def test_a_new_member_prevents_the_deletion_of_the_group(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        world.hold_answers = True
        request_id = world.send(DeleteGroupsRequest(groups_names=["g"]), 2)
        world.heartbeat("m1", 0, ["t"])
        # when
        world.hold_answers = False
        world.settle()
        # then
        assert world.shard.replies[request_id].results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        world.heartbeat("m1", world.group().members["m1"].epoch)
        assert world.group().members["m1"].assigned == {T: {0, 1}}

    def test_offsets_that_are_altered_while_the_group_ends_end_with_it(self) -> None:
        world = ShareDriver()
        world.create_topic("t", 1)
        world.hold_answers = True
        world.send(alter("t", p0=5))
        request_id = world.send(DeleteGroupsRequest(groups_names=["g"]), 2)
        world.send(alter("t", p0=6))
        # when
        world.hold_answers = False
        world.settle()
        # then
        assert world.shard.replies[request_id].results[0].error_code == ErrorCode.NONE
        assert share_groups(world.shard.shard) == {}
        assert not world.states


class TestRecords:
    def test_a_compacted_log_may_have_them_in_another_order(self) -> None:
        member = ShareMember("m", None, "client", "/host", frozenset({"t"}), 2, 1, {T: frozenset({0})})
        states = StatePartitions(initialized={T: TopicState("t", frozenset({0}))})
        written = [
            records.member_metadata("g", member),
            records.group_epoch("g", 2, 77),
            records.target_of_member("g", "m", {T: frozenset({0})}),
            records.target_epoch("g", 2, 1_000),
            records.current_assignment("g", member),
            records.state_partitions("g", states),
        ]
        groups: dict[str, ShareGroup] = {}
        for record in written:
            replay(groups, record, 0)
        turned: dict[str, ShareGroup] = {}
        # when
        for record in reversed(written):
            replay(turned, record, 0)
        # then
        assert share_group(turned["g"]) == share_group(groups["g"])
        assert turned["g"].members == {"m": member}
        assert turned["g"].subscriptions == {"t": 1}

    def test_tombstones_of_unknown_keys_create_no_state(self) -> None:
        groups: dict[str, ShareGroup] = {}
        for record in [*records.member_tombstones("g", "m"), *records.group_tombstones("g")]:
            replay(groups, record, 0)
        assert groups == {}

    def test_tombstones_take_out_all_there_is(self) -> None:
        world = a_group_of_one()
        world.heartbeat("m1", -1)
        groups = {"g": world.group()}
        for record in records.group_tombstones("g"):
            replay(groups, record, 0)
        assert groups == {}


class TestAssignor:
    def test_more_members_than_partitions_share_them_evenly(self) -> None:
        wanted = {f"m{number}": frozenset({T}) for number in range(5)}
        given = assign(wanted, {T: frozenset({0, 1})}, {})
        held = [partition for topics in given.values() for partition in topics[T]]
        assert sorted(held) == [0, 0, 0, 1, 1, 1]
        assert {len(topics[T]) for topics in given.values()} == {1, 2}

    def test_members_keep_what_they_have_when_one_more_comes(self) -> None:
        before = assign({"a": frozenset({T}), "b": frozenset({T})}, {T: frozenset(range(6))}, {})
        wanted = {name: frozenset({T}) for name in ("a", "b", "c")}
        after = assign(wanted, {T: frozenset(range(6))}, before)
        for name in ("a", "b"):
            assert after[name][T] < before[name][T]
        assert len(after["c"][T]) == 2

    def test_partitions_that_cannot_be_assigned_are_taken_back(self) -> None:
        current = {"a": {T: frozenset({0, 1}), U: frozenset({0})}}
        assert assign({"a": frozenset({T})}, {T: frozenset({1})}, current) == {"a": {T: {1}}}

    def test_each_topic_goes_to_its_subscribers(self) -> None:
        wanted = {"a": frozenset({T}), "b": frozenset({T, U})}
        given = assign(wanted, {T: frozenset({0, 1}), U: frozenset({0})}, {})
        assert given["b"][U] == {0}
        assert given["a"][T] | given["b"][T] == {0, 1}
        assert given["a"].keys() == {T}

    def test_the_last_place_is_made_by_moving_a_member(self) -> None:
        zero, one = SharePartition(T, 0), SharePartition(T, 1)
        # given: c is due a second place, but a and b have filled the partition that c does not have
        given = share_out([zero, one], ["a", "b", "c"], {"a": set(), "b": set(), "c": {one}})
        # then
        assert given["c"] == {zero, one}
        for partition in (zero, one):
            assert sum(partition in mine for mine in given.values()) == 2


def _heartbeat(member: str, epoch: int, *topics: str) -> Any:
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
