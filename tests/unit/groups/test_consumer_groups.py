"""Consumer groups of KIP-848 over time: deadlines, intervals, expressions, sizes, appends that fail."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.core.groups.api import TopicsChanged
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.topics import TopicDescription, TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from support.core.group_shard import ShardDriver

GROUP = "g"
REBALANCE_TIMEOUT_MS = 30_000
SESSION_TIMEOUT_MS = 45_000


def topic_id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


class Group:
    """A shard with one group, and topics."""

    def __init__(self, **chosen: Any) -> None:
        settings = {"consumer_assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0, **chosen}
        self.driver = ShardDriver(GroupSettings(**settings))
        self.topics: dict[str, TopicDescription] = {}
        self.set_topics(t=4)

    def set_topics(self, **partitions: int) -> None:
        for name, count in partitions.items():
            self.topics[name] = TopicDescription(topic_id(name), name, (frozenset(),) * count)
        self.driver.step(TopicsChanged(self.driver.now, TopicsView(self.topics), frozenset(partitions)))

    def send(self, request: Any, version: int = 1) -> Any:
        return self.driver.replies[self.driver.send(request, version)]

    def beat(self, member: str, epoch: int, owned: list[int] | None = None, **fields: Any) -> Any:
        if owned is not None:
            fields["topic_partitions"] = [TopicPartitions(topic_id=topic_id("t"), partitions=owned)]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, **fields
        )
        return self.send(request)

    def join(self, member: str, *topics: str, **fields: Any) -> Any:
        return self.beat(
            member,
            0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=list(topics),
            topic_partitions=[],
            **fields,
        )

    def described(self) -> Any:
        return self.send(ConsumerGroupDescribeRequest(group_ids=[GROUP])).groups[0]

    def members(self) -> set[str]:
        return {member.member_id for member in self.described().members}


def partitions(answer: Any) -> list[int]:
    return sorted(p for topic in answer.assignment.topic_partitions for p in topic.partitions)


def test_a_silent_member_is_taken_out_when_its_session_ends() -> None:
    group = Group()
    group.join("m1", "t")
    group.driver.advance(SESSION_TIMEOUT_MS - 1)
    assert group.members() == {"m1"}
    group.driver.advance(1)
    assert group.members() == set()
    assert group.beat("m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_coordinator_gives_every_member_a_whole_session() -> None:
    group = Group()
    group.join("m1", "t")
    group.driver.advance(SESSION_TIMEOUT_MS - 1)
    group.driver.reload()
    group.driver.advance(SESSION_TIMEOUT_MS - 1)
    assert group.members() == {"m1"}
    group.driver.advance(1)
    assert group.members() == set()


def test_a_member_that_does_not_revoke_is_fenced_and_its_partitions_are_reassigned() -> None:
    # given: m1 has to revoke two partitions
    group = Group()
    group.join("m1", "t")
    assert partitions(group.join("m2", "t")) == []
    assert partitions(group.beat("m1", 2)) == [0, 1]
    # when: it does not, but is alive
    for _ in range(10):
        group.driver.advance(REBALANCE_TIMEOUT_MS // 10)
        group.beat("m1", 2, [0, 1, 2, 3])
        last = group.beat("m2", 3)
    # then
    assert group.members() == {"m2"}
    last = group.beat("m2", last.member_epoch)
    assert group.described().members[0].member_epoch == 4
    assert last.error_code == ErrorCode.NONE
    owned = group.described().members[0].assignment.topic_partitions
    assert sorted(p for topic in owned for p in topic.partitions) == [0, 1, 2, 3]


def test_changes_in_a_short_time_make_one_target() -> None:
    # given: targets at most once a second
    group = Group(consumer_assignment_interval_ms=1_000)
    group.join("m1", "t")
    # when: two more join within it
    group.driver.advance(100)
    group.join("m2", "t")
    group.join("m3", "t")
    # then: the group's epoch is ahead, the target is not made
    described = group.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 4, 2)
    # when: the time has passed
    group.driver.advance(1_000)
    group.beat("m1", 2)
    # then
    assert group.described().assignment_epoch == 4


def test_a_wall_clock_that_was_set_back_does_not_delay_assignments() -> None:
    group = Group(consumer_assignment_interval_ms=1_000)
    group.driver.advance(10_000_000)
    group.join("m1", "t")
    group.driver.now_ms = 0
    group.join("m2", "t")
    assert group.described().assignment_epoch == 3


def test_an_expression_names_topics_that_are_made_later() -> None:
    # given
    group = Group()
    group.join("m1", subscribed_topic_regex="t.*")
    group.driver.advance(2)
    epoch = group.beat("m1", 1).member_epoch
    assert sorted(topic.topic_name for topic in group.described().members[0].assignment.topic_partitions) == [
        "t"
    ]
    # when: a topic is made, and the shortest time between two searches has passed
    group.set_topics(t2=1, other=1)
    group.driver.advance(10_001)
    group.beat("m1", epoch)
    group.driver.advance(2)
    group.beat("m1", epoch)
    # then
    topics = group.described().members[0].assignment.topic_partitions
    assert sorted(topic.topic_name for topic in topics) == ["t", "t2"]


def test_many_topics_are_looked_through_in_slices() -> None:
    group = Group()
    group.set_topics(**{f"t{n}": 1 for n in range(5_000)})
    group.join("m1", subscribed_topic_regex="t4.*")
    group.driver.advance(1)
    assert group.beat("m1", 1).member_epoch == 1, "not all at once"
    group.driver.advance(20)
    assert group.beat("m1", 1).member_epoch == 2
    assert len(group.described().members[0].assignment.topic_partitions) == 1_111


def test_a_group_has_a_largest_size() -> None:
    group = Group(consumer_max_size=1)
    group.join("m1", "t")
    assert group.join("m2", "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join("m1", "t").error_code == ErrorCode.NONE


def test_a_join_that_could_not_be_written_leaves_no_state() -> None:
    group = Group()
    group.driver.hold_appends = True
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m1",
        rebalance_timeout_ms=1,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    request_id = group.driver.send(request, 1)
    assert request_id not in group.driver.replies
    group.driver.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert group.driver.replies[request_id].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_migration_that_is_disabled() -> None:
    # given
    group = Group(consumer_migration_policy="disabled")
    group.join("m1", "t")
    # when
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")]
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="c1",
        protocol_type="consumer",
        protocols=protocols,
    )
    # then
    assert group.send(join, 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_groups_are_listed_by_state_and_type() -> None:
    group = Group()
    group.join("m1", "t")

    def listed(**filters: list[str]) -> list[str]:
        return [each.group_id for each in group.send(ListGroupsRequest(**filters), 5).groups]

    assert listed(states_filter=["STABLE"], types_filter=["Consumer"]) == [GROUP]
    assert listed(states_filter=["empty"]) == listed(types_filter=["classic"]) == []


def classic_join(member_id: str = "", session_timeout_ms: int = 10_000) -> JoinGroupRequest:
    metadata = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def test_an_upgrade_that_could_not_be_written_leaves_the_classic_group() -> None:
    # given: a stable classic group of one
    group = Group()
    joined = group.send(classic_join(), 3)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    assert group.send(sync, 3).error_code == ErrorCode.NONE
    heartbeat = HeartbeatRequest(
        group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id
    )
    # when: a member of the new protocol joins, the old one sends a request meanwhile, and no append succeeds
    group.driver.hold_appends = True
    upgrade = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m1",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    asked = group.driver.send(upgrade, 1)
    meanwhile = group.driver.send(heartbeat, 4)
    assert meanwhile not in group.driver.replies, "it waits for what becomes of its group"
    group.driver.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    group.driver.hold_appends = False
    # then: the classic group goes on
    assert group.driver.replies[asked].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.driver.replies[meanwhile].error_code in (
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
    assert group.send(heartbeat, 4).error_code == ErrorCode.NONE
    assert group.described().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    # and its member's session still ends
    group.driver.advance(10_001)
    assert group.send(heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_sync_is_fenced() -> None:
    # given: one of each protocol
    group = Group()
    group.join("m1", "t")
    joined = group.send(classic_join("c1", 600_000), 9)
    assert joined.error_code == ErrorCode.NONE
    # when: it has joined and is silent, while the other one goes on
    for _ in range(11):
        group.driver.advance(1_000)
        group.beat("m1", 2, [0, 1, 2, 3])
    # then
    assert group.members() == {"m1"}
