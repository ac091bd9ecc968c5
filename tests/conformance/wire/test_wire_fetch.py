"""Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords: offsets at the edges, waiting, fetch sessions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.record_batch import iterate_headers
from support.clients.wire import BASE_TIMESTAMP_MS, WireClient, batch, produce_request
from support.servers.cluster import Cluster

BATCHES, RECORDS_A_BATCH = 5, 10
END = BATCHES * RECORDS_A_BATCH
BATCH_BYTES = len(batch(RECORDS_A_BATCH))


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as client:
        yield client


@pytest.fixture
def topic(wire: WireClient, unique_name: str) -> str:
    """Two partitions: five batches of ten records in the first, nothing in the second."""
    wire.create_topic(unique_name, partitions=2)
    for number in range(BATCHES):
        wire.produce(unique_name, 0, batch(RECORDS_A_BATCH, timestamp_ms=BASE_TIMESTAMP_MS + 1000 * number))
    return unique_name


def base_offsets(answer: Any) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(bytes(answer.records or b""))]


class TestOffsetsAndSizes:
    @pytest.mark.parametrize("version", range(4, 19))
    def test_every_version_reads(self, wire: WireClient, topic: str, version: int) -> None:
        answer = wire.fetch(topic, [0], version=version)[0]
        assert answer.error_code == ErrorCode.NONE
        assert (answer.high_watermark, answer.last_stable_offset) == (END, END)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.preferred_read_replica == -1
        assert base_offsets(answer) == [0, 10, 20, 30, 40]

    def test_offset_inside_a_batch_gives_the_whole_batch(self, wire: WireClient, topic: str) -> None:
        assert base_offsets(wire.fetch(topic, [0], offset=15)[0]) == [10, 20, 30, 40]
        assert base_offsets(wire.fetch(topic, [0], offset=49)[0]) == [40]

    def test_end_of_the_log_is_empty(self, wire: WireClient, topic: str) -> None:
        answer = wire.fetch(topic, [0], offset=END)[0]
        assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, END)
        assert bytes(answer.records or b"") == b""

    @pytest.mark.parametrize("offset", [END + 1, -1, 2**62])
    def test_offset_out_of_range(self, wire: WireClient, topic: str, offset: int) -> None:
        answer = wire.fetch(topic, [0], offset=offset)[0]
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)
        assert bytes(answer.records or b"") == b""

    def test_first_batch_comes_whole_however_small_the_limit(self, wire: WireClient, topic: str) -> None:
        for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}):
            assert base_offsets(wire.fetch(topic, [0], **limits)[0]) == [0]

    def test_partition_limit(self, wire: WireClient, topic: str) -> None:
        answer = wire.fetch(topic, [0], partition_max_bytes=2 * BATCH_BYTES + 5)[0]
        assert base_offsets(answer) == [0, 10]
        assert len(answer.records) <= 2 * BATCH_BYTES + 5

    def test_response_limit_holds_over_partitions(self, wire: WireClient, topic: str) -> None:
        for _ in range(BATCHES):
            wire.produce(topic, 1, batch(RECORDS_A_BATCH))
        answers = wire.fetch(topic, [0, 1], max_bytes=BATCH_BYTES * 3 + 5)
        # the first partition takes as much as it may, the second gets the rest
        assert base_offsets(answers[0]) == [0, 10, 20]
        assert base_offsets(answers[1]) == []
        # and with a limit below one batch only the first partition with records gives one
        answers = wire.fetch(topic, [1, 0], max_bytes=1)
        assert (base_offsets(answers[1]), base_offsets(answers[0])) == ([0], [])

    @pytest.mark.parametrize(("epoch", "code"), [(0, "NONE"), (-1, "NONE"), (5, "UNKNOWN_LEADER_EPOCH")])
    def test_leader_epoch_is_checked(self, wire: WireClient, topic: str, epoch: int, code: str) -> None:
        partition = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1000)
        request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[partition])])
        (answer,) = wire.call(request, 12).responses[0].partitions
        assert ErrorCode(answer.error_code).name == code

    def test_read_committed_names_aborted_transactions(self, wire: WireClient, topic: str) -> None:
        partition = FetchPartition(partition=0, partition_max_bytes=1_000_000)
        topics = [FetchTopic(topic=topic, partitions=[partition])]
        (committed,) = wire.call(FetchRequest(isolation_level=1, topics=topics), 12).responses[0].partitions
        (uncommitted,) = wire.call(FetchRequest(isolation_level=0, topics=topics), 12).responses[0].partitions
        assert committed.aborted_transactions == []
        assert uncommitted.aborted_transactions is None
        assert len(base_offsets(committed)) == BATCHES

    def test_unknown_topics_and_partitions(self, wire: WireClient, topic: str) -> None:
        for name, partition in [(f"{topic}-not-there", 0), (topic, 7)]:
            answer = wire.fetch(name, [partition])[partition]
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)

    @pytest.mark.parametrize("topic_id", [uuid.UUID(int=0), uuid.UUID(int=12345)])
    def test_unknown_topic_id(self, wire: WireClient, topic_id: uuid.UUID) -> None:
        partitions = [FetchPartition(partition=0, partition_max_bytes=1000)]
        request = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=partitions)])
        (answer,) = wire.call(request, 13).responses
        assert answer.topic_id == topic_id
        assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_follower_that_is_no_replica(self, wire: WireClient, topic: str) -> None:
        partitions = [FetchPartition(partition=0, partition_max_bytes=1000)]
        request = FetchRequest(replica_id=5, topics=[FetchTopic(topic=topic, partitions=partitions)])
        (answer,) = wire.call(request, 12).responses[0].partitions
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestWaiting:
    def test_fetch_waits_for_its_bytes(self, cluster: Cluster, wire: WireClient, topic: str) -> None:
        # given: a fetch at the end that may wait for longer than the test does
        partitions = [FetchPartition(partition=0, fetch_offset=END, partition_max_bytes=1_000_000)]
        topics = [FetchTopic(topic=topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=60_000, min_bytes=BATCH_BYTES + 1, topics=topics)
        correlation_id = wire.send(request, 12)
        with WireClient.connect(cluster.bootstrap) as producer:
            # when: one batch is not enough, two are
            producer.produce(topic, 0, batch(RECORDS_A_BATCH))
            producer.produce(topic, 0, batch(RECORDS_A_BATCH))
        # then
        (answer,) = wire.receive(request, correlation_id, 12).responses[0].partitions
        assert base_offsets(answer) == [50, 60]

    def test_fetch_ends_after_its_time(self, wire: WireClient, topic: str) -> None:
        started = time.monotonic()
        answer = wire.fetch(topic, [0], offset=40, max_wait_ms=200, min_bytes=1_000_000)[0]
        assert time.monotonic() - started >= 0.19
        assert base_offsets(answer) == [40]

    def test_errors_do_not_wait(self, wire: WireClient, topic: str) -> None:
        wire.connection.settimeout(10)
        assert wire.fetch(topic, [0], offset=999, max_wait_ms=60_000, min_bytes=1)[0].error_code == 1
        assert wire.fetch(topic, [7], max_wait_ms=60_000, min_bytes=1)[7].error_code == 3
        assert wire.fetch(topic, [], max_wait_ms=60_000, min_bytes=1) == {}

    def test_waiting_fetch_holds_back_later_requests_of_its_connection_only(
        self, cluster: Cluster, wire: WireClient, topic: str
    ) -> None:
        partitions = [FetchPartition(partition=0, fetch_offset=END, partition_max_bytes=1_000_000)]
        fetch = FetchRequest(
            max_wait_ms=300, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=partitions)]
        )
        produce = produce_request(topic, 0, batch(1))
        # when: the produce that would wake the fetch stands behind it
        fetch_id, produce_id = wire.send(fetch, 12), wire.send(produce, 12)
        # then: answers come in the order of the requests
        (answer,) = wire.receive(fetch, fetch_id, 12).responses[0].partitions
        assert answer.error_code == ErrorCode.NONE
        assert wire.receive(produce, produce_id, 12).responses[0].partition_responses[0].base_offset == END

    def test_deleted_topic_ends_the_wait(self, cluster: Cluster, wire: WireClient, topic: str) -> None:
        partitions = [FetchPartition(partition=0, fetch_offset=END, partition_max_bytes=1_000_000)]
        topics = [FetchTopic(topic=topic, partitions=partitions)]
        request = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
        correlation_id = wire.send(request, 12)
        with WireClient.connect(cluster.bootstrap) as other:
            other.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
        wire.connection.settimeout(30)
        (answer,) = wire.receive(request, correlation_id, 12).responses[0].partitions
        assert ErrorCode(answer.error_code).name in ("UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER")


class Session:
    """A fetch session of one connection; every answer is a dictionary of (topic, partition) to answer."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire
        self.session_id = 0

    def fetch(
        self,
        epoch: int,
        partitions: dict[tuple[str, int], int],
        forget: list[tuple[str, int]] | None = None,
        version: int = 12,
    ) -> dict[tuple[str, int], Any]:
        """Fetch partitions from offsets; the error of the whole response is under ("", 0) if there is one."""
        request = FetchRequest(max_wait_ms=0, session_id=self.session_id, session_epoch=epoch)
        for (topic, partition), offset in partitions.items():
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1_000_000)
            request.topics.append(FetchTopic(topic=topic, partitions=[wanted]))
        for topic, partition in forget or []:
            request.forgotten_topics_data.append(ForgottenTopic(topic=topic, partitions=[partition]))
        response = self.wire.call(request, version)
        if response.error_code:
            assert response.responses == []
            assert response.session_id == 0
            return {("", 0): ErrorCode(response.error_code).name}
        if epoch == 0:
            self.session_id = response.session_id
        else:
            assert response.session_id == (self.session_id if epoch > 0 else 0)
        return {(t.topic, p.partition_index): p for t in response.responses for p in t.partitions}


class TestSessions:
    @pytest.fixture
    def session(self, wire: WireClient) -> Session:
        return Session(wire)

    def test_a_session_answers_only_partitions_with_changes(
        self, wire: WireClient, session: Session, topic: str
    ) -> None:
        # given: a full fetch names everything, empty partitions too
        first = session.fetch(0, {(topic, 0): END, (topic, 1): 0})
        assert session.session_id != 0
        assert set(first) == {(topic, 0), (topic, 1)}
        # then: nothing changed
        assert session.fetch(1, {}) == {}
        # when
        wire.produce(topic, 1, batch(1))
        # then
        changed = session.fetch(2, {})
        assert set(changed) == {(topic, 1)}
        assert changed[(topic, 1)].high_watermark == 1
        # and records come again until the consumer moves on
        assert base_offsets(session.fetch(3, {})[(topic, 1)]) == [0]
        assert session.fetch(4, {(topic, 1): 1}) == {}

    def test_partitions_are_added_and_forgotten(self, wire: WireClient, session: Session, topic: str) -> None:
        other = f"{topic}-other"
        wire.create_topic(other)
        session.fetch(0, {(topic, 0): 0})
        # added
        assert set(session.fetch(1, {(other, 0): 0})) == {(topic, 0), (other, 0)}
        # forgotten: its records are not sent any more
        assert session.fetch(2, {}, forget=[(topic, 0)]) == {}
        wire.produce(other, 0, batch(1))
        assert set(session.fetch(3, {})) == {(other, 0)}

    def test_session_without_partitions_ends(self, wire: WireClient, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): 0})
        forgotten = [ForgottenTopic(topic=topic, partitions=[0])]
        request = FetchRequest(
            session_id=session.session_id, session_epoch=1, forgotten_topics_data=forgotten
        )
        answer = wire.call(request, 12)
        assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.NONE, 0, [])
        assert session.fetch(2, {}) == {("", 0): "FETCH_SESSION_ID_NOT_FOUND"}

    def test_wrong_epochs(self, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): 0})
        assert set(session.fetch(1, {})) == {(topic, 0)}
        # one too many, then an old one; the session lives on
        assert session.fetch(5, {}) == {("", 0): "INVALID_FETCH_SESSION_EPOCH"}
        assert session.fetch(1, {}) == {("", 0): "INVALID_FETCH_SESSION_EPOCH"}
        assert set(session.fetch(2, {})) == {(topic, 0)}

    def test_unknown_session(self, session: Session) -> None:
        session.session_id = 1_234_567
        assert session.fetch(1, {}) == {("", 0): "FETCH_SESSION_ID_NOT_FOUND"}

    def test_closed_session_is_gone(self, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): 0})
        # the last fetch of a session gives its id up and is answered in full
        assert session.fetch(-1, {(topic, 0): END}).keys() == {(topic, 0)}
        assert session.fetch(2, {}) == {("", 0): "FETCH_SESSION_ID_NOT_FOUND"}

    def test_new_session_replaces_the_old_one(self, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): 0})
        old = session.session_id
        session.fetch(0, {(topic, 0): 0})
        assert session.session_id not in (0, old)
        new, session.session_id = session.session_id, old
        assert session.fetch(1, {}) == {("", 0): "FETCH_SESSION_ID_NOT_FOUND"}
        session.session_id = new
        assert set(session.fetch(1, {})) == {(topic, 0)}

    def test_errors_are_told_again(self, session: Session, topic: str) -> None:
        missing = (f"{topic}-not-there", 0)
        session.fetch(0, {(topic, 0): END})
        for epoch, partitions in [(1, {missing: 0}), (2, {})]:
            answers = session.fetch(epoch, partitions)
            assert answers[missing].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert set(answers) == {missing}

    def test_topic_that_comes_to_exist(self, wire: WireClient, session: Session, topic: str) -> None:
        later = f"{topic}-later"
        session.fetch(0, {(later, 0): 0})
        wire.create_topic(later)
        assert session.fetch(1, {})[(later, 0)].error_code == ErrorCode.NONE

    def test_names_and_ids_do_not_mix_in_a_session(self, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): 0})
        request = FetchRequest(max_wait_ms=0, session_id=session.session_id, session_epoch=1)
        assert session.wire.call(request, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_session_by_topic_ids(self, wire: WireClient, topic: str) -> None:
        partitions = [FetchPartition(partition=0, partition_max_bytes=1_000_000)]
        topics = [FetchTopic(topic_id=wire.topic_id(topic), partitions=partitions)]
        full = wire.call(FetchRequest(session_epoch=0, topics=topics), 17)
        assert full.session_id != 0
        partial = wire.call(FetchRequest(session_id=full.session_id, session_epoch=1), 17)
        assert [t.topic_id for t in partial.responses] == [wire.topic_id(topic)]
        # when
        forgotten = [ForgottenTopic(topic_id=wire.topic_id(topic), partitions=[0])]
        request = FetchRequest(session_id=full.session_id, session_epoch=2, forgotten_topics_data=forgotten)
        assert wire.call(request, 17).responses == []

    def test_log_start_moving_is_told(self, wire: WireClient, session: Session, topic: str) -> None:
        session.fetch(0, {(topic, 0): END})
        assert session.fetch(1, {}) == {}
        delete_records(wire, topic, 0, 15)
        assert session.fetch(2, {})[(topic, 0)].log_start_offset == 15


def list_offset(
    wire: WireClient, topic: str, timestamp: int, *, partition: int = 0, version: int = 10, epoch: int = -1
) -> tuple[str, int, int, int]:
    """Error, offset, timestamp, leader epoch."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    answer = wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), version).topics[0].partitions[0]
    return ErrorCode(answer.error_code).name, answer.offset, answer.timestamp, answer.leader_epoch


class TestListOffsets:
    LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(
        -1, -7, -1
    )
    NOTHING = ("NONE", -1, -1, -1)
    UNSUPPORTED = ("UNSUPPORTED_VERSION", -1, -1, -1)

    def test_special_timestamps(self, wire: WireClient, topic: str) -> None:
        newest_ms = BASE_TIMESTAMP_MS + 4009
        assert list_offset(wire, topic, self.LATEST) == ("NONE", END, -1, 0)
        assert list_offset(wire, topic, self.EARLIEST) == ("NONE", 0, -1, 0)
        assert list_offset(wire, topic, self.MAX_TIMESTAMP) == ("NONE", 49, newest_ms, 0)
        assert list_offset(wire, topic, self.EARLIEST_LOCAL) == ("NONE", 0, -1, 0)
        assert list_offset(wire, topic, self.LATEST_TIERED) == self.NOTHING
        assert list_offset(wire, topic, self.EARLIEST_PENDING_UPLOAD, version=11) == self.NOTHING
        assert list_offset(wire, topic, -7) == self.UNSUPPORTED

    def test_special_timestamps_of_an_empty_partition(self, wire: WireClient, topic: str) -> None:
        for timestamp in (self.LATEST, self.EARLIEST, self.EARLIEST_LOCAL):
            assert list_offset(wire, topic, timestamp, partition=1) == ("NONE", 0, -1, 0)
        assert list_offset(wire, topic, self.MAX_TIMESTAMP, partition=1) == self.NOTHING
        assert list_offset(wire, topic, 0, partition=1) == self.NOTHING

    @pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
    def test_special_timestamps_belong_to_versions(
        self, wire: WireClient, topic: str, timestamp: int, since: int
    ) -> None:
        for version in range(1, 12):
            supported = list_offset(wire, topic, timestamp, version=version) != self.UNSUPPORTED
            assert supported == (version >= since), version

    def test_by_timestamp(self, wire: WireClient, topic: str) -> None:
        for after_ms, offset, found_ms in [(0, 0, 0), (5, 5, 5), (9, 9, 9), (10, 10, 1000), (4009, 49, 4009)]:
            found = list_offset(wire, topic, BASE_TIMESTAMP_MS + after_ms)
            assert found == ("NONE", offset, BASE_TIMESTAMP_MS + found_ms, 0)
        assert list_offset(wire, topic, BASE_TIMESTAMP_MS + 4010) == self.NOTHING

    def test_leader_epoch_is_told_from_version_4(self, wire: WireClient, topic: str) -> None:
        assert list_offset(wire, topic, self.LATEST, version=3) == ("NONE", END, -1, -1)
        assert list_offset(wire, topic, self.LATEST, version=4) == ("NONE", END, -1, 0)

    def test_errors(self, wire: WireClient, topic: str) -> None:
        unknown = ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1, -1)
        assert list_offset(wire, f"{topic}-not-there", self.LATEST) == unknown
        assert list_offset(wire, topic, self.LATEST, partition=9) == unknown
        assert list_offset(wire, topic, self.LATEST, epoch=7)[0] == "UNKNOWN_LEADER_EPOCH"
        assert list_offset(wire, topic, self.LATEST, epoch=0)[0] == "NONE"

    def test_partition_named_twice(self, wire: WireClient, topic: str) -> None:
        asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in (-1, -2)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
        (answer,) = wire.call(request, 7).topics[0].partitions
        assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_end_offset_of_an_epoch(wire: WireClient, topic: str) -> None:
    def end_offset(name: str, partition: int, current: int, epoch: int) -> tuple[str, int, int]:
        asked = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [OffsetForLeaderTopic(topic=name, partitions=[asked])]
        answer = wire.call(OffsetForLeaderEpochRequest(topics=topics), 4).topics[0].partitions[0]
        return ErrorCode(answer.error_code).name, answer.leader_epoch, answer.end_offset

    assert end_offset(topic, 0, -1, 0) == ("NONE", 0, END)
    assert end_offset(topic, 1, -1, 0) == ("NONE", 0, 0)
    assert end_offset(topic, 0, 0, 0) == ("NONE", 0, END)
    assert end_offset(topic, 0, -1, 5) == ("NONE", -1, -1)
    assert end_offset(topic, 0, 5, 0) == ("UNKNOWN_LEADER_EPOCH", -1, -1)
    assert end_offset(topic, 9, -1, 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1)
    assert end_offset(f"{topic}-not-there", 0, -1, 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1)


def delete_records(wire: WireClient, topic: str, partition: int, offset: int) -> tuple[str, int]:
    """Error and new low watermark."""
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5000
    )
    answer = wire.call(request, 2).topics[0].partitions[0]
    return ErrorCode(answer.error_code).name, answer.low_watermark


class TestDeleteRecords:
    def test_log_start_moves_forward_only(self, wire: WireClient, topic: str) -> None:
        assert delete_records(wire, topic, 0, 15) == ("NONE", 15)
        assert delete_records(wire, topic, 0, 10) == ("NONE", 15)
        assert delete_records(wire, topic, 0, END + 1) == ("OFFSET_OUT_OF_RANGE", -1)
        assert delete_records(wire, topic, 0, -2) == ("OFFSET_OUT_OF_RANGE", -1)
        # inside a batch: the batch stays, offsets before the start may not be asked for
        assert base_offsets(wire.fetch(topic, [0], offset=15)[0]) == [10, 20, 30, 40]
        assert wire.fetch(topic, [0], offset=14)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert wire.fetch(topic, [0], offset=15)[0].log_start_offset == 15
        assert list_offset(wire, topic, TestListOffsets.EARLIEST) == ("NONE", 15, -1, 0)
        # all of it
        assert delete_records(wire, topic, 0, -1) == ("NONE", END)
        assert list_offset(wire, topic, TestListOffsets.EARLIEST)[:2] == ("NONE", END)
        assert list_offset(wire, topic, 0) == TestListOffsets.NOTHING
        # and the log goes on
        assert wire.produce(topic, 0, batch(1)).base_offset == END

    def test_refusals(self, wire: WireClient, topic: str) -> None:
        assert delete_records(wire, topic, 9, 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
        assert delete_records(wire, f"{topic}-not-there", 0, 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
        compacted = f"{topic}-compacted"
        wire.create_topic(compacted, config={"cleanup.policy": "compact"})
        assert delete_records(wire, compacted, 0, 0) == ("POLICY_VIOLATION", -1)
        both = f"{topic}-both"
        wire.create_topic(both, config={"cleanup.policy": "compact,delete"})
        assert delete_records(wire, both, 0, 0) == ("NONE", 0)
