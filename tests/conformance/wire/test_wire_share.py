"""Share groups on the wire: sessions, deliveries, acknowledgements, the share coordinator's state (KIP-932).

Recorded from Apache Kafka. The conversations begin with InitializeShareGroupState, as the group coordinator
does when a member subscribes; membership itself is another story.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    share_acknowledge_request,
    share_fetch_request,
    write_share_group_state_request,
)
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from ottla.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch_request import ShareFetchRequest
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready, settled
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, batch, wait_for
from support.servers.cluster import Cluster

GROUP_RESOURCE = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ANN, BOB = "ann", "bob"
NOBODY_KNOWS = uuid.UUID(int=0x1234)
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1

Begin = Callable[[str], Transcript]
Acknowledged = Sequence[tuple[int, int, Sequence[int]]]


def initialize(
    group: str, topic_id: uuid.UUID, start_offset: int = 0, state_epoch: int = 1, partition: int = 0
) -> InitializeShareGroupStateRequest:
    data = initialize_share_group_state_request.PartitionData(
        partition=partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_share_group_state_request.InitializeStateData(topic_id=topic_id, partitions=[data])
    return InitializeShareGroupStateRequest(group_id=group, topics=[topic])


def read(
    group: str, topic_id: uuid.UUID, leader_epoch: int = 0, partition: int = 0
) -> ReadShareGroupStateRequest:
    data = read_share_group_state_request.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = read_share_group_state_request.ReadStateData(topic_id=topic_id, partitions=[data])
    return ReadShareGroupStateRequest(group_id=group, topics=[topic])


def summary(group: str, topic_id: uuid.UUID, partition: int = 0) -> ReadShareGroupStateSummaryRequest:
    data = read_share_group_state_summary_request.PartitionData(partition=partition, leader_epoch=0)
    topic = read_share_group_state_summary_request.ReadStateSummaryData(topic_id=topic_id, partitions=[data])
    return ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic])


def write(
    group: str,
    topic_id: uuid.UUID,
    batches: Sequence[tuple[int, int, int, int]] = (),
    start_offset: int = -1,
    state_epoch: int = 1,
    leader_epoch: int = 0,
    partition: int = 0,
) -> WriteShareGroupStateRequest:
    data = write_share_group_state_request.PartitionData(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=7,
        state_batches=[
            write_share_group_state_request.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topic = write_share_group_state_request.WriteStateData(topic_id=topic_id, partitions=[data])
    return WriteShareGroupStateRequest(group_id=group, topics=[topic])


def delete(group: str, topic_id: uuid.UUID, partition: int = 0) -> DeleteShareGroupStateRequest:
    data = delete_share_group_state_request.PartitionData(partition=partition)
    topic = delete_share_group_state_request.DeleteStateData(topic_id=topic_id, partitions=[data])
    return DeleteShareGroupStateRequest(group_id=group, topics=[topic])


def share_fetch(
    group: str | None,
    member: str | None,
    epoch: int,
    topic_id: uuid.UUID | None = None,
    acknowledged: Acknowledged = (),
    partitions: Sequence[int] = (0,),
    **fields: Any,
) -> ShareFetchRequest:
    limits = {"max_wait_ms": 300, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
    request = ShareFetchRequest(
        group_id=group, member_id=member, share_session_epoch=epoch, **{**limits, **fields}
    )
    if topic_id is not None:
        batches = [
            share_fetch_request.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in acknowledged
        ]
        request.topics = [
            share_fetch_request.FetchTopic(
                topic_id=topic_id,
                partitions=[
                    share_fetch_request.FetchPartition(partition_index=index, acknowledgement_batches=batches)
                    for index in partitions
                ],
            )
        ]
    return request


def acknowledge(
    group: str | None,
    member: str | None,
    epoch: int,
    topic_id: uuid.UUID,
    acknowledged: Acknowledged = (),
    partition: int = 0,
    **fields: Any,
) -> ShareAcknowledgeRequest:
    batches = [
        share_acknowledge_request.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=list(types)
        )
        for first, last, types in acknowledged
    ]
    data = share_acknowledge_request.AcknowledgePartition(
        partition_index=partition, acknowledgement_batches=batches
    )
    return ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        topics=[share_acknowledge_request.AcknowledgeTopic(topic_id=topic_id, partitions=[data])],
        **fields,
    )


def sizes_only(response: Any) -> None:
    """The records' bytes as their number."""
    for topic in response.responses:
        for data in topic.partitions:
            data.records = b"%d bytes" % len(data.records) if data.records else b""


class Share:
    """A conversation about one group and one topic."""

    def __init__(self, say: Transcript, partitions: int = 1) -> None:
        self.say = say
        self.wire = say.wire
        self.group = f"{say.prefix}-group"
        self.topic = f"{say.prefix}-topic"
        self.wire.create_topic(self.topic, partitions=partitions)
        self.topic_id = self.wire.topic_id(self.topic)
        key = f"{self.group}:{'A' * 22}:0"
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        wait_for(lambda: self.wire.call(find).coordinators[0].error_code == ErrorCode.NONE)
        wait_for(lambda: _error(self.wire.call(summary(self.group, self.topic_id))) == ErrorCode.NONE)

    def begin(self, start_offset: int = 0, partitions: Sequence[int] = (0,)) -> None:
        for index in partitions:
            answer = self.wire.call(initialize(self.group, self.topic_id, start_offset, partition=index))
            assert _error(answer) == ErrorCode.NONE

    def produce(self, *sizes: int, partition: int = 0) -> None:
        for size in sizes:
            self.wire.produce(self.topic, partition, batch(size))

    def fetch(
        self, member: str, epoch: int, acknowledged: Acknowledged = (), *, version: int = 2, **fields: Any
    ) -> Any:
        named = self.topic_id if epoch == 0 or acknowledged else None
        request = share_fetch(self.group, member, epoch, named, acknowledged, **fields)
        return self.say.say(request, version, keep=sizes_only)

    def acknowledge(
        self, member: str, epoch: int, acknowledged: Acknowledged, *, version: int = 2, **fields: Any
    ) -> None:
        self.say.say(acknowledge(self.group, member, epoch, self.topic_id, acknowledged, **fields), version)


def _error(response: Any) -> int:
    return int(response.results[0].partitions[0].error_code)


@pytest.fixture
def share(transcript: Begin, request: pytest.FixtureRequest) -> Share:
    name = request.node.originalname.removeprefix("test_")
    return Share(transcript(f"share_{name}"), partitions=2)


def test_state_of_the_coordinator(share: Share) -> None:
    say, group, topic = share.say, share.group, share.topic_id
    say.title("what was never initialised")
    say.say(read(group, topic))
    say.say(write(group, topic))
    say.say(summary(group, topic), 1)
    say.say(delete(group, topic))
    say.title("initialise, write, read")
    say.say(initialize(group, topic, start_offset=-1))
    say.say(read(group, topic))
    say.say(write(group, topic, [(10, 19, 0, 1), (20, 29, 2, 1)], start_offset=10), 1)
    say.say(read(group, topic))
    say.say(summary(group, topic), 1)
    say.say(summary(group, topic), 0)
    say.title("batches over one another")
    say.say(write(group, topic, [(12, 14, 2, 1), (15, 24, 0, 2), (30, 34, 0, 1)]), 1)
    say.say(read(group, topic))
    say.say(write(group, topic, [(13, 13, 0, 1), (10, 11, 4, 5)], start_offset=11), 0)
    say.say(read(group, topic))
    say.say(summary(group, topic), 1)
    say.title("epochs")
    say.say(read(group, topic, leader_epoch=5))
    say.say(read(group, topic, leader_epoch=4))
    say.say(read(group, topic, leader_epoch=-1))
    say.say(write(group, topic, leader_epoch=4))
    say.say(write(group, topic, leader_epoch=6, start_offset=12))
    say.say(write(group, topic, leader_epoch=5, state_epoch=0))
    say.say(write(group, topic, leader_epoch=5, state_epoch=9))
    say.say(initialize(group, topic, state_epoch=0))
    say.say(initialize(group, topic, start_offset=3, state_epoch=2))
    say.say(read(group, topic, leader_epoch=5))
    say.say(write(group, topic, leader_epoch=5, state_epoch=1))
    say.title("what is not there")
    say.say(initialize(group, topic, partition=7))
    say.say(initialize(group, topic, partition=-1))
    say.say(initialize(group, NOBODY_KNOWS))
    say.say(read(group, NOBODY_KNOWS))
    say.say(summary(group, NOBODY_KNOWS))
    say.say(delete(group, NOBODY_KNOWS))
    say.say(read("", topic))
    say.say(ReadShareGroupStateRequest(group_id=group, topics=[]))
    say.title("delete")
    say.say(delete(group, topic))
    say.say(read(group, topic))
    say.say(delete(group, topic))


def test_sessions(share: Share) -> None:
    say, group = share.say, share.group
    share.begin(partitions=(0, 1))
    share.produce(3)
    say.title("what no request may be")
    say.say(share_fetch(None, ANN, 0, share.topic_id))
    say.say(share_fetch(group, "", 0, share.topic_id))
    say.say(share_fetch(group, "a" * 37, 0, share.topic_id))
    say.say(share_fetch(group, ANN, 0, share.topic_id, [(0, 0, [ACCEPT])]))
    say.title("no session yet")
    say.say(share_fetch(group, ANN, 1))
    say.say(share_fetch(group, ANN, -1))
    say.say(acknowledge(group, ANN, 0, share.topic_id))
    say.say(acknowledge(group, ANN, 1, share.topic_id))
    say.say(acknowledge(group, ANN, -1, share.topic_id))
    say.say(acknowledge(None, ANN, 1, share.topic_id))
    say.say(acknowledge(group, None, 1, share.topic_id))
    say.title("a session")
    share.fetch(ANN, 0)
    share.fetch(ANN, 2)
    share.fetch(ANN, 1)
    share.fetch(ANN, 1)
    share.acknowledge(ANN, 9, [(0, 0, [ACCEPT])])
    share.acknowledge(ANN, 2, [(0, 0, [ACCEPT])])
    say.title("another partition, none any more, one that is not there")
    say.say(share_fetch(group, ANN, 3, share.topic_id, partitions=[1]), keep=sizes_only)
    forget = share_fetch_request.ForgottenTopic(topic_id=share.topic_id, partitions=[0])
    share.produce(2)
    share.fetch(ANN, 4, forgotten_topics_data=[forget])
    say.say(share_fetch(group, ANN, 5, share.topic_id, partitions=[5]), keep=sizes_only)
    say.title("the end, and a new one: what was held is there again")
    share.fetch(ANN, -1)
    share.fetch(ANN, -1)
    share.fetch(BOB, 0)


def test_deliveries(share: Share) -> None:
    say = share.say
    share.begin()
    share.produce(4, 3, 3)
    say.title("ann gets all, bob nothing")
    share.fetch(ANN, 0)
    share.fetch(BOB, 0)
    say.title("every type, for the whole and for each")
    share.acknowledge(ANN, 1, [(0, 3, [ACCEPT])])
    share.acknowledge(ANN, 2, [(4, 6, [RELEASE, REJECT, GAP])])
    share.fetch(BOB, 1)
    say.title("what cannot be acknowledged")
    share.acknowledge(ANN, 3, [(4, 4, [ACCEPT])])
    share.acknowledge(ANN, 4, [(5, 5, [ACCEPT])])
    share.acknowledge(ANN, 5, [(0, 0, [ACCEPT])])
    share.acknowledge(ANN, 6, [(7, 12, [ACCEPT])])
    share.acknowledge(ANN, 7, [(50, 51, [ACCEPT])])
    share.acknowledge(ANN, 8, [(8, 7, [ACCEPT])])
    share.acknowledge(ANN, 9, [(7, 8, [])])
    share.acknowledge(ANN, 10, [(7, 8, [5])])
    share.acknowledge(ANN, 11, [(7, 9, [ACCEPT, ACCEPT])])
    share.acknowledge(ANN, 12, [(8, 8, [ACCEPT]), (7, 7, [ACCEPT])])
    share.acknowledge(ANN, 13, [(7, 7, [RENEW])])
    share.acknowledge(ANN, 14, [(7, 7, [RENEW])], version=1)
    share.acknowledge(ANN, 15, [(7, 7, [ACCEPT])], partition=1)
    share.acknowledge(ANN, 16, [(7, 7, [ACCEPT])], partition=9)
    say.title("one refused range refuses the partition's others")
    share.acknowledge(ANN, 17, [(7, 7, [ACCEPT]), (4, 4, [ACCEPT])])
    say.title("renewed, then accepted with the next fetch")
    share.acknowledge(ANN, 18, [(7, 9, [RENEW])], is_renew_ack=True)
    share.fetch(ANN, 19, [(7, 8, [ACCEPT])], max_wait_ms=0)
    share.fetch(ANN, 20, [(9, 9, [RENEW])], is_renew_ack=True)
    share.fetch(
        ANN,
        21 - 1,
        [(9, 9, [RENEW])],
        is_renew_ack=True,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        max_records=0,
    )
    share.acknowledge(BOB, 2, [(4, 4, [ACCEPT])])
    share.acknowledge(ANN, 21, [(9, 9, [ACCEPT])])
    say.say(summary(share.group, share.topic_id), 1)
    share.produce(1)
    share.fetch(ANN, 22)
    say.title("the last request acknowledges, and releases the rest")
    share.produce(2)
    share.fetch(BOB, 3)
    share.acknowledge(BOB, -1, [(11, 11, [ACCEPT])])
    share.fetch(ANN, 23)


def test_delivery_counts(share: Share) -> None:
    """Records that fail again and again come in ever smaller numbers, the last time alone."""
    share.begin()
    share.produce(8)
    acquired = _acquired(share.fetch(ANN, 0))
    epoch = 1
    while acquired:
        for first, last in acquired:
            share.acknowledge(ANN, epoch, [(first, last, [RELEASE])])
            epoch += 1
        acquired = _acquired(share.fetch(ANN, epoch, max_wait_ms=100))
        epoch += 1
    share.say.say(summary(share.group, share.topic_id), 1)


def _acquired(answer: Any) -> list[tuple[int, int]]:
    return [
        (each.first_offset, each.last_offset)
        for topic in answer.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def test_limits(share: Share) -> None:
    say = share.say
    share.begin()
    share.produce(5, 5, 5, 5)
    say.title("whole batches, and as many as the limit begins")
    share.fetch(ANN, 0, max_records=3)
    share.fetch(ANN, 1, max_records=6)
    say.title("pieces of at least the batch size, at the records' batches")
    share.produce(2, 2, 2)
    share.fetch(ANN, 2, batch_size=4)
    say.title("exactly so many")
    share.produce(5, 5)
    share.fetch(BOB, 0, max_records=3, share_acquire_mode=RECORD_LIMIT)
    share.fetch(BOB, 1, max_records=1, share_acquire_mode=RECORD_LIMIT)
    share.fetch(ANN, 3, max_records=2)
    share.fetch(ANN, 4, max_records=20, share_acquire_mode=RECORD_LIMIT)
    say.title("nothing")
    share.produce(1)
    share.fetch(ANN, 5, max_records=0)
    share.fetch(ANN, 6, max_bytes=0, min_bytes=0)
    say.title("less than the smallest number of bytes, and a limit smaller than a batch")
    share.fetch(ANN, 7, min_bytes=1_000_000)
    share.produce(1)
    share.fetch(ANN, 8, max_bytes=1)


def test_released_parts_of_a_batch(share: Share) -> None:
    share.begin()
    share.produce(6, 4)
    share.fetch(ANN, 0)
    share.acknowledge(ANN, 1, [(1, 2, [RELEASE]), (4, 4, [RELEASE]), (6, 7, [RELEASE])])
    share.fetch(BOB, 0)
    share.acknowledge(BOB, 1, [(1, 7, [ACCEPT])])
    share.acknowledge(BOB, 2, [(1, 2, [ACCEPT]), (4, 4, [RELEASE])])
    share.acknowledge(ANN, 2, [(0, 0, [RELEASE])])
    share.fetch(BOB, 3, max_records=1, share_acquire_mode=RECORD_LIMIT)
    share.fetch(BOB, 4)


def test_deleted_records(share: Share) -> None:
    say = share.say
    share.begin()
    share.produce(5, 5)
    share.fetch(ANN, 0)
    share.acknowledge(ANN, 1, [(0, 1, [RELEASE]), (7, 8, [RELEASE])])
    partition = DeleteRecordsPartition(partition_index=0, offset=8)
    topic = DeleteRecordsTopic(name=share.topic, partitions=[partition])
    assert share.wire.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)).topics
    say.title("records up to 8 are gone")
    share.fetch(ANN, 2)
    share.fetch(ANN, 3)
    share.acknowledge(ANN, 4, [(2, 6, [ACCEPT])])
    share.acknowledge(ANN, 5, [(9, 9, [ACCEPT])])


def test_state_that_was_never_initialised(share: Share) -> None:
    share.produce(1)
    share.fetch(ANN, 0)
    share.acknowledge(ANN, 1, [(0, 0, [ACCEPT])])


def test_gaps_in_loaded_state(share: Share) -> None:
    share.begin()
    share.produce(5, 5, 5, 5)
    state = write(share.group, share.topic_id, [(3, 5, 2, 1), (8, 8, 0, 2), (12, 13, 4, 1)], start_offset=1)
    assert _error(share.wire.call(state, 1)) == ErrorCode.NONE
    share.fetch(ANN, 0, max_records=3)
    share.fetch(ANN, 1, max_records=1, share_acquire_mode=RECORD_LIMIT)
    share.fetch(ANN, 2)
    share.fetch(ANN, 3)


def test_waiting_fetches(share: Share, cluster: Cluster) -> None:
    """Given a fetch that waits, when records are released or appended, then it is answered with them."""
    share.begin()
    share.produce(2)
    share.fetch(ANN, 0)
    with WireClient.connect(cluster.bootstrap) as other:
        say = share.say
        first = share_fetch(share.group, BOB, 0, share.topic_id, max_wait_ms=0)
        say.ask("bob", other, first)
        say.answer("bob", sizes_only)
        say.ask("bob", other, share_fetch(share.group, BOB, 1, max_wait_ms=20_000))
        share.produce(3)
        say.answer("bob", sizes_only)
        say.ask("bob", other, share_fetch(share.group, BOB, 2, max_wait_ms=20_000))
        share.acknowledge(ANN, 1, [(0, 0, [ACCEPT]), (1, 1, [RELEASE])])
        say.answer("bob", sizes_only)


def test_an_unknown_topic_is_an_error_of_that_topic(cluster: Cluster, unique_name: str) -> None:
    """Apache Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR, to every request of the session from then on."""
    if cluster.name == "apache-kafka":
        pytest.skip("a known fault of Apache Kafka")
    with WireClient.connect(cluster.bootstrap) as client:
        client.call(share_fetch(unique_name, ANN, 0))
        answer = client.call(share_fetch(unique_name, ANN, 1, NOBODY_KNOWS))
        data = answer.responses[0].partitions[0]
        assert (answer.error_code, data.error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID)


def set_isolation(share: Share, level: str) -> None:
    config = AlterableConfig(name="share.isolation.level", config_operation=0, value=level)
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=share.group, configs=[config])
    answer = share.wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


def transactions(share: Share) -> None:
    """Offsets 0, 1 aborted, 2 the marker, 3 committed, 4 the marker, 5 of an open transaction, 6 of none."""
    name = f"{share.say.prefix}-txn"
    coordinator_ready(share.wire, name)
    producer = TransactionalProducer(share.wire, name, v2=False)
    assert producer.initialise() == ErrorCode.NONE
    for values, committed in (((b"a", b"b"), False), ((b"c",), True)):
        producer.begin(share.topic)
        for value in values:
            assert producer.produce(share.topic, value) == ErrorCode.NONE
        assert settled(lambda end=committed: producer.end(committed=end)).error_code == ErrorCode.NONE
        producer.wait_for_state("CompleteCommit" if committed else "CompleteAbort")
    producer.begin(share.topic)
    assert producer.produce(share.topic, b"d") == ErrorCode.NONE
    share.produce(1)


def test_committed_records_only(share: Share) -> None:
    share.begin()
    set_isolation(share, "read_committed")
    transactions(share)
    share.fetch(ANN, 0)
    share.acknowledge(ANN, 1, [(2, 4, [GAP, ACCEPT, GAP])])
    share.fetch(ANN, 2)
    share.say.say(summary(share.group, share.topic_id), 1)


def test_uncommitted_records_too(share: Share) -> None:
    share.begin()
    transactions(share)
    share.fetch(ANN, 0)


def test_several_partitions(share: Share) -> None:
    """`max_records` is for all of them together, another one comes first each time."""
    share.begin(partitions=(0, 1))
    share.fetch(ANN, 0, partitions=(0, 1))
    share.produce(2, 2, partition=0)
    share.produce(2, 2, partition=1)
    share.fetch(ANN, 1, max_records=3)
    share.fetch(ANN, 2, max_records=2)
    share.fetch(ANN, 3, max_records=2)
    share.produce(1, partition=1)
    request = share_fetch(share.group, ANN, 4, share.topic_id, [(0, 1, [ACCEPT])], max_wait_ms=0)
    share.say.say(request, keep=sizes_only)
