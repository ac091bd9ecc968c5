"""Fetches answered by a leader, and a follower's handling of answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.core.quorum import requests
from ottla.core.quorum.api import (
    Address,
    AppendFetched,
    AppendSnapshot,
    BeginSnapshot,
    Commit,
    InstallSnapshot,
    QuorumFault,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Report,
    Role,
    Send,
    SnapshotId,
    Trouble,
    Truncate,
)
from ottla.core.quorum.control_records import LogControl, voters_control
from ottla.core.quorum.leader import OBSERVER_EXPIRES_MS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch_snapshot_response
from ottla.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.vote_request import VoteRequest
from support.core.quorum_network import Entry
from support.core.quorum_node import (
    CLUSTER,
    SETTINGS,
    NodeUnderTest,
    fetch,
    fetch_answer,
    key,
    listeners,
    vote_answer,
    voters,
)


def partition(answer: Any) -> Any:
    topics = answer.topics if hasattr(answer, "topics") else answer.responses
    return topics[0].partitions[0]


def diverging(answer: Any) -> tuple[int, int]:
    return partition(answer).diverging_epoch.epoch, partition(answer).diverging_epoch.end_offset


def leader() -> NodeUnderTest:
    """A leader of epoch 1; its log has the epoch's three control records, all synced."""
    return NodeUnderTest().be_elected(1)


class TestALeader:
    def test_commits_records_that_a_majority_has_synced(self) -> None:
        node = leader()

        assert node.fetched_by(1, 0) is None  # it is given records
        assert node.all(ReplyRecords)[0].fetch_offset == 0
        assert node.all(Commit) == []

        node.fetched_by(1, 3)
        assert node.all(Commit) == [Commit(3)]

    def test_counts_its_own_log_when_it_is_synced(self) -> None:
        node = leader()
        node.fetched_by(1, 3)
        node.log.entries.append(Entry(1, b"record"))
        node.feed(node.quorum.on_leader_appended)

        node.fetched_by(1, 4)
        assert node.all(Commit) == []

        node.flush()
        assert node.all(Commit) == [Commit(4)]

    def test_commits_records_of_older_epochs_only_with_one_of_its_own(self) -> None:
        kind, value = voters_control(voters(0, 1, 2))
        old = (Entry(1, value, kind), Entry(1, b"old"))
        node = NodeUnderTest(entries=old).be_elected(1)

        node.fetched_by(1, 2)
        assert node.all(Commit) == []

        node.fetched_by(1, 3)
        assert node.all(Commit) == [Commit(3)]

    def test_an_observer_does_not_count_towards_a_majority(self) -> None:
        node = leader()

        node.fetched_by(7, 3)

        assert node.all(Commit) == []

    def test_a_fetch_at_the_end_waits_for_a_record(self) -> None:
        node = leader()
        node.fetched_by(1, 3)
        assert node.fetched_by(1, 3, high_watermark=3) is None
        token = node.last_token

        node.log.entries.append(Entry(1, b"record"))
        node.feed(node.quorum.on_leader_appended)

        assert [(each.token, each.fetch_offset) for each in node.all(ReplyRecords)] == [(token, 3)]

    def test_or_for_the_high_watermark(self) -> None:
        node = leader()
        assert node.fetched_by(7, 3) is None
        token = node.last_token

        node.fetched_by(1, 3)

        assert partition(node.answer_to(token)).high_watermark == 3

    def test_or_for_its_time(self) -> None:
        node = leader()
        assert node.fetched_by(7, 3, wait_ms=100) is None
        token = node.last_token

        node.after(100)

        assert partition(node.answer_to(token)).error_code == ErrorCode.NONE

    def test_a_fetch_of_a_closed_connection_is_forgotten(self) -> None:
        node = leader()
        assert node.fetched_by(7, 3, wait_ms=100) is None

        node.quorum.on_disconnected(node.last_token)

        assert node.after(100) == []

    def test_waiting_requests_are_refused_when_the_leader_loses_its_epoch(self) -> None:
        node = leader()
        node.fetched_by(7, 3)
        token = node.last_token

        node.ask(requests.begin_epoch(CLUSTER, 9, 1, listeners(1), key(0)))

        answer = node.answer_to(token)
        assert partition(answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition(answer).current_leader.leader_id == 1
        assert [each.host for each in answer.node_endpoints] == ["node-1"]

    def test_a_log_that_went_apart_is_told_where(self) -> None:
        node = leader()

        answer = node.ask(fetch(1, 1, (1, 8)))
        assert (partition(answer).diverging_epoch.epoch, partition(answer).diverging_epoch.end_offset) == (
            1,
            3,
        )

        node.log.entries = [Entry(2, b""), Entry(2, b""), Entry(4, b"")]
        answer = node.ask(fetch(1, 1, (3, 3)))
        assert (partition(answer).diverging_epoch.epoch, partition(answer).diverging_epoch.end_offset) == (
            2,
            2,
        )
        assert node.all(Commit) == []

    def test_a_log_that_ends_before_the_leaders_begins_is_given_a_snapshot(self) -> None:
        node = leader()
        node.log.snapshots = {SnapshotId(3, 1): node.log.entries}
        node.log.entries, node.log.start_offset = [], 3

        answer = node.ask(fetch(2, 1, (0, 0)))

        assert (partition(answer).snapshot_id.end_offset, partition(answer).snapshot_id.epoch) == (3, 1)
        assert partition(node.ask(fetch(2, 1, (1, 3), wait_ms=0))).snapshot_id.end_offset == -1

    @pytest.mark.parametrize("version", range(12, 19))
    def test_every_version_is_answered(self, version: int) -> None:
        node = leader()
        request = fetch(2, 1, (1, 8))
        request.replica_id = 2

        assert partition(node.ask(request, version)).diverging_epoch.end_offset == 3

    def test_errors(self) -> None:
        node = leader()
        other_cluster = fetch(1, 1, (0, 0))
        other_cluster.cluster_id = "another"
        other_topic = fetch(1, 1, (0, 0))
        other_topic.topics[0].topic_id = key(1).directory_id

        assert node.ask(other_cluster).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert node.ask(other_topic).error_code == ErrorCode.INVALID_REQUEST
        assert partition(node.ask(fetch(1, 0, (0, 0)))).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert partition(node.ask(fetch(1, 2, (0, 0)))).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert partition(node.ask(fetch(1, 1, (0, -1)))).error_code == ErrorCode.INVALID_REQUEST
        follower = NodeUnderTest(1)
        assert partition(follower.ask(fetch(2, 0, (0, 0)))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_the_same_id_with_another_directory_is_an_observer_and_reported(self) -> None:
        node = leader()
        request = fetch(1, 1, (1, 3))
        request.topics[0].partitions[0].replica_directory_id = key(99).directory_id

        node.ask(request)

        assert node.all(Commit) == []
        assert node.all(Report) == [Report(Trouble.DUPLICATE_NODE_ID, 1, None)]

    def test_snapshots_are_sent_in_pieces(self) -> None:
        node = leader()
        ask = requests.fetch_snapshot

        node.ask(ask(CLUSTER, 1, key(2), SnapshotId(3, 1), 50, 100))
        (reply,) = node.all(ReplySnapshot)
        assert (reply.snapshot, reply.position, reply.max_bytes) == (SnapshotId(3, 1), 50, 100)

        answer = node.ask(ask(CLUSTER, 1, key(2), SnapshotId(0, 0), 0, 100))
        assert partition(answer).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
        answer = node.ask(ask(CLUSTER, 1, key(2), SnapshotId(3, 1), -1, 100))
        assert partition(answer).error_code == ErrorCode.POSITION_OUT_OF_RANGE
        answer = node.ask(ask(CLUSTER, 7, key(2), SnapshotId(3, 1), 0, 100))
        assert partition(answer).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        other = ask(CLUSTER, 1, key(2), SnapshotId(3, 1), 0, 100)
        other.topics[0].name = "orders"
        assert partition(node.ask(other)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestDescribing:
    REQUEST = DescribeQuorumRequest(
        topics=[TopicData(topic_name=requests.METADATA_TOPIC, partitions=[PartitionData()])]
    )

    @pytest.mark.parametrize("version", range(3))
    def test_every_version_is_answered(self, version: int) -> None:
        answer = leader().ask(self.REQUEST, version)

        assert [each.replica_id for each in partition(answer).current_voters] == [0, 1, 2]

    def test_voters_and_observers_with_their_times(self) -> None:
        node = leader()
        node.fetched_by(1, 3)
        caught_up = node.now_ms + 1_000_000
        node.now_ms += 50
        node.fetched_by(7, 0)

        answer = node.ask(self.REQUEST)

        described = partition(answer)
        assert (described.leader_id, described.leader_epoch, described.high_watermark) == (0, 1, 3)
        own, other, silent = described.current_voters
        assert (own.log_end_offset, own.last_fetch_timestamp) == (3, node.now_ms + 1_000_000)
        assert (other.log_end_offset, other.last_caught_up_timestamp) == (3, caught_up)
        assert (silent.log_end_offset, silent.last_fetch_timestamp) == (-1, -1)
        assert [(each.replica_id, each.log_end_offset) for each in described.observers] == [(7, 0)]
        assert [(each.node_id, each.listeners[0].host) for each in answer.nodes][:1] == [(0, "node-0")]

    def test_an_observer_is_forgotten_after_five_minutes(self) -> None:
        node = leader()
        node.fetched_by(7, 0)
        node.now_ms += OBSERVER_EXPIRES_MS

        assert partition(node.ask(self.REQUEST)).observers == []

    def test_a_follower_does_not_know(self) -> None:
        assert NodeUnderTest(1).ask(self.REQUEST).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_other_topics_are_unknown(self) -> None:
        request = DescribeQuorumRequest(topics=[TopicData(topic_name="orders", partitions=[PartitionData()])])

        assert partition(leader().ask(request)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def follower(entries: tuple[Entry, ...] = (), epoch: int = 5) -> tuple[NodeUnderTest, Send]:
    """Node 0 follows node 1; returned with its first fetch."""
    node = NodeUnderTest(entries=entries)
    node.ask(requests.begin_epoch(CLUSTER, epoch, 1, listeners(1), key(0)))
    (send,) = node.sent(FetchRequest)
    return node, send


RECORDS = (Entry(5, b"a"), Entry(5, b"b"))


class TestAFollower:
    def test_fetches_on_only_when_its_log_is_synced(self) -> None:
        node, send = follower()

        node.answer(send, fetch_answer(1, 5, RECORDS, high_watermark=2))
        assert [each.leader_epoch for each in node.all(AppendFetched)] == [5]
        assert node.sent(FetchRequest) == []

        node.feed(lambda now: node.quorum.on_appended(now))
        assert node.all(Commit) == [Commit(2)]
        assert node.sent(FetchRequest) == []

        node.flush()
        (send,) = node.sent(FetchRequest)
        asked = partition(send.request)
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.high_watermark) == (2, 5, 2)

    def test_the_high_watermark_goes_no_further_than_the_log_and_never_back(self) -> None:
        node, send = follower(RECORDS)
        node.answer(send, fetch_answer(1, 5, high_watermark=9))
        assert node.all(Commit) == [Commit(2)]

        node.answer(node.sent(FetchRequest)[0], fetch_answer(1, 5, high_watermark=1))
        assert node.all(Commit) == []
        assert node.quorum.high_watermark == 2

    def test_cuts_a_diverged_tail_and_fetches_from_there(self) -> None:
        node, send = follower((Entry(2, b"a"), Entry(3, b"b"), Entry(3, b"c")))

        node.answer(send, fetch_answer(1, 5, diverging=(2, 1)))
        assert node.all(Truncate) == [Truncate(1)]
        assert node.sent(FetchRequest) == []

        node.after(0)
        assert partition(node.sent(FetchRequest)[0].request).fetch_offset == 1

    def test_never_cuts_committed_records(self) -> None:
        node, send = follower((Entry(2, b"a"), Entry(3, b"b")))
        node.answer(send, fetch_answer(1, 5, high_watermark=2))

        with pytest.raises(QuorumFault, match="committed"):
            node.answer(node.sent(FetchRequest)[0], fetch_answer(1, 5, diverging=(2, 1)))

    def test_voters_in_the_log_count_at_once_and_until_they_are_cut(self) -> None:
        node, send = follower(RECORDS)
        node.answer(send, fetch_answer(1, 5, (Entry(5, b"voters"),)))

        node.feed(lambda now: node.quorum.on_appended(now, [LogControl(2, voters(0, 1, 2, 3))]))
        assert node.quorum.voters.node_ids == (0, 1, 2, 3)
        assert node.quorum.voters_at(2) == voters(0, 1, 2)

        node.flush()
        node.answer(node.sent(FetchRequest)[0], fetch_answer(1, 5, diverging=(5, 2)))
        assert node.quorum.voters.node_ids == (0, 1, 2)

    def test_an_answer_from_before_a_change_is_passed_over(self) -> None:
        node, send = follower()
        node.ask(requests.begin_epoch(CLUSTER, 6, 2, listeners(2), key(0)))

        node.answer(send, fetch_answer(1, 5, RECORDS))

        assert node.all(AppendFetched) == []

    def test_goes_to_the_leader_that_an_error_names(self) -> None:
        node, send = follower()

        node.answer(send, fetch_answer(2, 6, error=ErrorCode.FENCED_LEADER_EPOCH))

        assert (node.quorum.leader_id, node.quorum.epoch) == (2, 6)
        assert [each.to for each in node.sent(FetchRequest)] == [Address("node-2", 9093)]

    def test_asks_another_node_when_the_leader_does_not_answer(self) -> None:
        node, send = follower()

        node.answer(send, None)

        assert [each.to for each in node.sent(FetchRequest)] == [Address("node-2", 9093)]

    def test_asks_for_votes_early_when_the_leader_cannot_be_reached(self) -> None:
        node, send = follower()
        node.answer(send, None)

        node.after(SETTINGS.election_timeout_ms)

        assert SETTINGS.election_timeout_ms < SETTINGS.fetch_timeout_ms
        assert node.quorum.role is Role.PROSPECTIVE

    def test_voters_that_refused_a_pre_vote_are_asked_again_at_the_fetch_timeout(self) -> None:
        # Apache Kafka's followers refuse until their own fetch timeout: a new wait would lose to them.
        node, send = follower()
        node.answer(send, None)
        node.after(SETTINGS.election_timeout_ms)
        for send in node.sent(VoteRequest):
            other = send.to == Address("node-2", 9093)
            node.answer(send, vote_answer(5, granted=False, leader_id=1) if other else None)
        assert node.quorum.role is Role.PROSPECTIVE

        node.after(SETTINGS.fetch_timeout_ms - SETTINGS.election_timeout_ms)

        assert node.quorum.role is Role.PROSPECTIVE
        assert Address("node-2", 9093) in [each.to for each in node.sent(VoteRequest)]

    def test_but_not_when_it_answers_again(self) -> None:
        node, send = follower()
        node.answer(send, None)
        (send,) = node.sent(FetchRequest)
        node.answer(send, None)
        node.after(SETTINGS.retry_backoff_ms)
        (send,) = node.sent(FetchRequest)
        assert send.to == Address("node-1", 9093)

        node.answer(send, fetch_answer(1, 5))
        node.after(SETTINGS.election_timeout_ms)

        assert node.quorum.role is Role.FOLLOWER

    def test_pauses_requests_to_an_unreachable_node_for_longer_each_time(self) -> None:
        node = NodeUnderTest(7, among=(1,))
        waits = []
        for _ in range(4):
            assert node.last_fetch is not None
            node.answer(node.last_fetch, None)
            wake_ms = node.quorum.next_wake_ms()
            assert wake_ms is not None
            waits.append(wake_ms - node.now_ms)
            node.after(waits[-1])

        assert waits == [20, 40, 80, 160]

    def test_another_cluster_is_reported_once(self) -> None:
        node, send = follower()
        refused = fetch_answer(1, 5)
        refused.error_code, refused.responses = ErrorCode.INCONSISTENT_CLUSTER_ID, []

        node.answer(send, refused)

        assert node.all(Report) == [Report(Trouble.OTHER_CLUSTER, -1, Address("node-1", 9093))]

    def test_records_that_are_no_good_are_fetched_again_after_a_pause(self) -> None:
        node, send = follower()
        node.answer(send, fetch_answer(1, 5, RECORDS))
        node.log.entries.clear()

        node.feed(node.quorum.on_append_failed)
        node.after(SETTINGS.retry_backoff_ms)

        assert node.quorum.role is Role.FOLLOWER
        assert node.sent(FetchRequest) or node.quorum.next_wake_ms() is not None

    def test_an_observer_without_voters_asks_its_bootstrap_servers(self) -> None:
        settings = replace(SETTINGS, bootstrap_servers=(Address("seed", 9093),), may_vote=False)

        node = NodeUnderTest(7, among=(), settings=settings)

        assert [each.to for each in node.sent(FetchRequest)] == [Address("seed", 9093)]

    def test_an_observer_looks_for_another_leader_when_its_own_is_silent(self) -> None:
        node = NodeUnderTest(7)
        node.ask(requests.begin_epoch(CLUSTER, 5, 1, listeners(1), key(7)))
        (send,) = node.sent(FetchRequest)

        node.after(SETTINGS.fetch_timeout_ms)
        node.answer(send, None)

        assert node.quorum.role is Role.FOLLOWER
        assert [each.to.host for each in node.sent(FetchRequest)] == ["node-0"]


def piece(data: bytes, position: int, size: int, snapshot: SnapshotId) -> FetchSnapshotResponse:
    part = fetch_snapshot_response.PartitionSnapshot(
        snapshot_id=fetch_snapshot_response.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
        size=size,
        position=position,
        unaligned_records=data,
    )
    topic = fetch_snapshot_response.TopicSnapshot(name=requests.METADATA_TOPIC, partitions=[part])
    return FetchSnapshotResponse(topics=[topic])


class TestASnapshot:
    ID = SnapshotId(40, 4)

    def fetching(self) -> tuple[NodeUnderTest, Send]:
        node, send = follower()
        node.answer(send, fetch_answer(1, 5, snapshot=self.ID))
        assert node.all(BeginSnapshot) == [BeginSnapshot(self.ID)]
        (send,) = node.sent(FetchSnapshotRequest)
        return node, send

    def test_is_fetched_piece_by_piece_and_installed(self) -> None:
        node, send = self.fetching()

        node.answer(send, piece(b"abc", 0, 5, self.ID))
        assert node.all(AppendSnapshot) == [AppendSnapshot(self.ID, b"abc")]
        (send,) = node.sent(FetchSnapshotRequest)
        assert partition(send.request).position == 3

        node.answer(send, piece(b"de", 3, 5, self.ID))
        assert node.all(InstallSnapshot) == [InstallSnapshot(self.ID)]
        assert node.all(Send) == []

    def test_the_log_goes_on_from_its_end(self) -> None:
        node, send = self.fetching()
        node.answer(send, piece(b"abc", 0, 3, self.ID))
        node.log.start_offset, node.log.snapshots = 40, {self.ID: []}
        controls = [LogControl(39, 1), LogControl(39, voters(0, 1))]

        node.feed(lambda now: node.quorum.on_snapshot_installed(now, self.ID, controls))

        assert node.quorum.voters.node_ids == (0, 1)
        assert node.all(Commit) == [Commit(40)]
        assert partition(node.sent(FetchRequest)[0].request).fetch_offset == 40

    def test_a_node_does_not_stand_for_election_while_it_is_put_in_place(self) -> None:
        node, send = self.fetching()
        node.answer(send, piece(b"abc", 0, 3, self.ID))

        node.after(10 * SETTINGS.fetch_timeout_ms)

        assert node.quorum.role is Role.FOLLOWER

    def test_that_is_gone_is_asked_for_with_a_fetch_again(self) -> None:
        node, send = self.fetching()
        gone = piece(b"", 0, 0, self.ID)
        gone.topics[0].partitions[0].error_code = ErrorCode.SNAPSHOT_NOT_FOUND

        node.answer(send, gone)

        assert node.all(AppendSnapshot) == []
        assert node.sent(FetchRequest)

    def test_a_snapshot_below_the_high_watermark_is_refused(self) -> None:
        node, send = follower(RECORDS)
        node.answer(send, fetch_answer(1, 5, high_watermark=2))

        with pytest.raises(QuorumFault, match="snapshot"):
            node.answer(node.sent(FetchRequest)[0], fetch_answer(1, 5, snapshot=SnapshotId(1, 5)))


def test_a_reply_is_made_once_for_each_token() -> None:
    node = leader()
    node.fetched_by(7, 3)
    token = node.last_token
    node.after(500)
    assert len([each for each in node.all(Reply) if each.token == token]) == 1

    assert [each for each in node.after(500) if isinstance(each, Reply)] == []
