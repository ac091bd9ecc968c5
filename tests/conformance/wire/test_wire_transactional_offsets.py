"""TxnOffsetCommit in every version, asked by hand: pending and committed offsets, and every refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
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
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
V1, V2, WITH_IDS = 4, 5, 6
"""The newest TxnOffsetCommit of each version of transactions, and the first that names topics by id."""
RETRIABLE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def ready(client: WireClient) -> bool:
    """Whether both coordinators answer."""
    for key_type in (0, 1):
        asked = FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)
        if client.call(asked).coordinators[0].error_code:
            return False
    return bool(client.call(ListGroupsRequest()).error_code == 0)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as connected:
        wait_for(lambda: ready(connected))
        yield connected


@dataclass
class Producer:
    """A transactional producer that sends request after request, and repeats one after a passing error."""

    client: WireClient
    transactional_id: str
    version: int
    producer_id: int = -1
    epoch: int = -1

    def begin(self) -> Producer:
        answer = self._again(
            InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000), 5
        )
        assert answer.error_code == NONE
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def add_offsets(self, group: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(self._again(request, 3).error_code)

    def commit_offsets(
        self, group: str, topic: str, offset: int, version: int | None = None, **changed: Any
    ) -> list[tuple[int, ErrorCode]]:
        """Offsets of the partitions 0 and 9 (which does not exist): (partition, error), sorted."""
        answer = self._again(
            self.request(group, topic, offset, **changed), self.version if version is None else version
        )
        return sorted(
            (each.partition_index, ErrorCode(each.error_code))
            for each_topic in answer.topics
            for each in each_topic.partitions
        )

    def request(
        self, group: str, topic: str, offset: int, metadata: str = "", **changed: Any
    ) -> TxnOffsetCommitRequest:
        named: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index in (0, 9)
        ]
        # Version 6 names topics by id, the others by name.
        topic_id = self.client.topic_id(topic)
        topics = [TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)]
        return TxnOffsetCommitRequest(**(named | changed), topics=topics)

    def end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        answer = self._again(request, 5 if self.version >= V2 else 4)
        assert answer.error_code == NONE
        if self.version >= V2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _again(self, request: Any, version: int) -> Any:
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(self.client.call(request, version))
            return not any(code in RETRIABLE for code in _codes(answers[-1]))

        wait_for(answered)
        return answers[-1]


def _codes(answer: Any) -> list[int]:
    if hasattr(answer, "error_code"):
        return [answer.error_code]
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def offset_of(client: WireClient, group: str, topic: str, stable: bool = True) -> tuple[int, ErrorCode]:
    """The group's offset of partition 0, and its error."""
    wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=stable
    )
    group = client.call(asked, 9).groups[0]
    if group.error_code:
        return -1, ErrorCode(group.error_code)
    (partition,) = group.topics[0].partitions
    return partition.committed_offset, ErrorCode(partition.error_code)


def commit(client: WireClient, group: str, topic: str, offset: int) -> None:
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    asked = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[one])]
    )
    answer = client.call(asked, 9)
    assert answer.topics[0].partitions[0].error_code == NONE


def settled(client: WireClient, group: str, topic: str) -> tuple[int, ErrorCode]:
    """The offset once the markers are written: they come after the answer of EndTxn."""
    wait_for(lambda: offset_of(client, group, topic)[1] is not UNSTABLE)
    return offset_of(client, group, topic)


def producer(client: WireClient, name: str, version: int) -> Producer:
    return Producer(client, f"{name}-tx", version).begin()


@pytest.mark.parametrize("version", [V1, V2, WITH_IDS])
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_count_when_the_transaction_commits(
    client: WireClient, unique_name: str, version: int, committed: bool
) -> None:
    # given
    client.create_topic(unique_name)
    commit(client, unique_name, unique_name, 3)
    who = producer(client, unique_name, version)
    if version == V1:
        assert who.add_offsets(unique_name) is NONE
    # when
    answered = who.commit_offsets(unique_name, unique_name, 8)
    # then
    assert answered == [(0, NONE), (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert offset_of(client, unique_name, unique_name) == (-1, UNSTABLE)
    assert offset_of(client, unique_name, unique_name, stable=False) == (3, NONE)
    # when
    who.end(committed)
    # then
    assert settled(client, unique_name, unique_name) == (8 if committed else 3, NONE)


@pytest.mark.parametrize("version", range(7))
def test_a_partition_that_is_not_in_the_transaction(
    client: WireClient, unique_name: str, version: int
) -> None:
    # given: nobody has sent AddOffsetsToTxn
    client.create_topic(unique_name)
    who = producer(client, unique_name, V1)
    # when
    answered = dict(who.commit_offsets(unique_name, unique_name, 8, version=version))
    # then: from version 5 on the broker adds the partition itself
    refused = {4: ErrorCode.TRANSACTION_ABORTABLE}.get(version, ErrorCode.INVALID_TXN_STATE)
    expected = NONE if version >= V2 else refused
    assert answered[0] is expected


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize(
    ("changed", "first_version", "expected"),
    [
        ({"group_id": ""}, 0, ErrorCode.INVALID_GROUP_ID),
        ({"producer_id": 999_999}, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": "nobody"}, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"producer_epoch": 20}, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        ({"generation_id_or_member_epoch": 4}, 3, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id_or_member_epoch": 4}, 6, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "m"}, 3, NONE),
        ({"metadata": "m" * 5_000}, 0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_refusals(
    client: WireClient,
    unique_name: str,
    version: int,
    changed: dict[str, Any],
    first_version: int,
    expected: ErrorCode,
) -> None:
    if version < first_version or (expected is ErrorCode.ILLEGAL_GENERATION and version >= 6):
        pytest.skip("the field, or the error, is not that of the version")
    # given
    client.create_topic(unique_name)
    who = producer(client, unique_name, V1 if version < V2 else V2)
    if version < V2:
        who.add_offsets(unique_name)
    # when
    answered = dict(who.commit_offsets(unique_name, unique_name, 8, version=version, **changed))
    # then
    assert answered[0] is expected
    assert answered[9] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [V1, V2])
def test_an_old_epoch_is_fenced(client: WireClient, unique_name: str, version: int) -> None:
    client.create_topic(unique_name)
    who = producer(client, unique_name, version)
    if version == V1:
        who.add_offsets(unique_name)
    who.commit_offsets(unique_name, unique_name, 8)
    # when: another producer of the same name takes over
    producer(client, unique_name, version)
    # then
    wait_for(lambda: offset_of(client, unique_name, unique_name)[1] is not UNSTABLE)
    assert dict(who.commit_offsets(unique_name, unique_name, 9))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert offset_of(client, unique_name, unique_name) == (-1, NONE)


def test_topics_by_id_are_committed_and_unknown_ones_refused(client: WireClient, unique_name: str) -> None:
    # given: two topics, an id that no topic has, and no id at all
    names = [f"{unique_name}-a", f"{unique_name}-b"]
    ids = [client.create_topic(name) for name in names]
    nowhere = uuid.uuid4()
    who = producer(client, unique_name, WITH_IDS)
    one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8)
    request = who.request(unique_name, names[0], 0)
    request.topics = [
        TxnOffsetCommitRequestTopic(topic_id=each, partitions=[one])
        for each in (ids[0], nowhere, ids[1], uuid.UUID(int=0))
    ]
    # when
    answer = client.call(request, WITH_IDS)
    # then
    errors = {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics}
    assert errors == {
        ids[0]: NONE,
        nowhere: ErrorCode.UNKNOWN_TOPIC_ID,
        ids[1]: NONE,
        uuid.UUID(int=0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    who.end(committed=True)
    assert [settled(client, unique_name, name) for name in names] == [(8, NONE)] * 2


def test_offsets_of_a_transaction_do_not_count_for_a_topic_made_again(
    client: WireClient, unique_name: str
) -> None:
    # given: offsets by name, of the topic that has the name now
    client.create_topic(unique_name)
    who = producer(client, unique_name, V2)
    who.commit_offsets(unique_name, unique_name, 8)
    who.end(committed=True)
    assert settled(client, unique_name, unique_name) == (8, NONE)
    # when
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=unique_name)], timeout_ms=10_000))
    wait_for(lambda: offset_of(client, unique_name, unique_name)[0] == -1)
    client.create_topic(unique_name)
    # then
    assert offset_of(client, unique_name, unique_name) == (-1, NONE)


def test_a_later_plain_commit_stands(client: WireClient, unique_name: str) -> None:
    client.create_topic(unique_name)
    who = producer(client, unique_name, V2)
    who.commit_offsets(unique_name, unique_name, 8)
    # when
    commit(client, unique_name, unique_name, 5)
    who.end(committed=True)
    # then
    assert settled(client, unique_name, unique_name) == (5, NONE)


@pytest.mark.parametrize("what", ["offset", "group"])
def test_deleting_a_group_or_its_offsets_deletes_pending_ones(
    client: WireClient, unique_name: str, what: str
) -> None:
    client.create_topic(unique_name)
    who = producer(client, unique_name, V2)
    who.commit_offsets(unique_name, unique_name, 8)
    # when
    if what == "group":
        answer = client.call(DeleteGroupsRequest(groups_names=[unique_name]))
        assert answer.results[0].error_code == NONE
    else:
        one = OffsetDeleteRequestPartition(partition_index=0)
        asked = OffsetDeleteRequest(
            group_id=unique_name, topics=[OffsetDeleteRequestTopic(name=unique_name, partitions=[one])]
        )
        assert client.call(asked).topics[0].partitions[0].error_code == NONE
    # then
    assert offset_of(client, unique_name, unique_name) == (-1, NONE)
    who.end(committed=True)
    assert settled(client, unique_name, unique_name) == (-1, NONE)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("committed", [True, False])
def test_pending_offsets_are_there_after_a_kill(
    start_own: Callable[..., AbstractContextManager[Any]], unique_name: str, version: int, committed: bool
) -> None:
    with start_own() as own:
        with WireClient.connect(own.bootstrap) as before:
            wait_for(lambda: ready(before))
            before.create_topic(unique_name)
            commit(before, unique_name, unique_name, 3)
            who = producer(before, unique_name, version)
            if version == V1:
                who.add_offsets(unique_name)
            assert dict(who.commit_offsets(unique_name, unique_name, 8))[0] is NONE
        # when
        own.kill()
        own.restart()
        with WireClient.connect(own.bootstrap) as after:
            wait_for(lambda: ready(after))
            # then
            wait_for(lambda: offset_of(after, unique_name, unique_name)[1] is UNSTABLE)
            assert offset_of(after, unique_name, unique_name, stable=False) == (3, NONE)
            who.client = after
            who.end(committed)
            assert settled(after, unique_name, unique_name) == (8 if committed else 3, NONE)
