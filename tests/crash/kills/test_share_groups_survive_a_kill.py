"""kill -9 in the middle of a share group's work: accepted records stay so, none is lost, rejected ones get to
their queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from uuid import UUID

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    initialize_share_group_state_request,
    share_acknowledge_request,
    share_fetch_request,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch_request import ShareFetchRequest
from ottla.protocol.record_batch import decode_records
from support.clients.wire import ConnectionClosed, WireClient, batch, wait_for
from support.servers.ottla_broker import OttlaBroker

GROUP, TOPIC = "workers", "jobs"
ACCEPT, RELEASE, REJECT = 1, 2, 3
QUEUE = "dlq.jobs"
SETTINGS = {
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.num.partitions": "1",
}


class Worker:
    """A share consumer by hand, one session after the other."""

    def __init__(self, client: WireClient, topic_id: UUID) -> None:
        self.client = client
        self.topic_id = topic_id
        self.epoch = 0

    def fetch(self, max_wait_ms: int = 2_000, max_records: int = 5) -> list[int]:
        """The offsets that were acquired."""
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id="ann",
            share_session_epoch=self.epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=100,
        )
        if self.epoch == 0:
            partition = share_fetch_request.FetchPartition(partition_index=0)
            request.topics = [share_fetch_request.FetchTopic(topic_id=self.topic_id, partitions=[partition])]
        answer = self.client.call(request)
        assert answer.error_code == ErrorCode.NONE
        self.epoch += 1
        acquired = []
        for topic in answer.responses:
            for data in topic.partitions:
                assert data.error_code == ErrorCode.NONE
                for each in data.acquired_records:
                    acquired += range(each.first_offset, each.last_offset + 1)
        return acquired

    def acknowledge(self, offsets: list[int], kind: int) -> None:
        if not offsets:  # an answer has no partition of which nothing was asked
            return
        batches = [
            share_acknowledge_request.AcknowledgementBatch(
                first_offset=offset, last_offset=offset, acknowledge_types=[kind]
            )
            for offset in offsets
        ]
        partition = share_acknowledge_request.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=batches
        )
        topic = share_acknowledge_request.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])
        answer = self.client.call(
            ShareAcknowledgeRequest(
                group_id=GROUP, member_id="ann", share_session_epoch=self.epoch, topics=[topic]
            )
        )
        self.epoch += 1
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


@contextmanager
def worker(broker: OttlaBroker) -> Iterator[Worker]:
    with WireClient.connect(broker.bootstrap) as client:
        yield Worker(client, client.topic_id(TOPIC))


def begin(broker: OttlaBroker, records: int) -> None:
    """A topic with records, one a batch, and a group that starts at the first."""
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(TOPIC)
        for _ in range(records):
            client.produce(TOPIC, 0, batch(1))
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"{GROUP}:{'A' * 22}:0"])
        wait_for(lambda: client.call(find).coordinators[0].error_code == ErrorCode.NONE)
        data = initialize_share_group_state_request.PartitionData(partition=0, state_epoch=1, start_offset=0)
        topic = initialize_share_group_state_request.InitializeStateData(
            topic_id=client.topic_id(TOPIC), partitions=[data]
        )
        initialize = InitializeShareGroupStateRequest(group_id=GROUP, topics=[topic])
        wait_for(lambda: client.call(initialize).results[0].partitions[0].error_code == ErrorCode.NONE)


def test_what_was_accepted_never_comes_again(tmp_path: Path) -> None:
    """Given accepted, released and held records, when the broker is killed, then only the others come."""
    with OttlaBroker.start(tmp_path, settings=SETTINGS) as broker:
        # given
        begin(broker, 20)
        with worker(broker) as ann:
            assert ann.fetch(max_records=10) == list(range(10))
            ann.acknowledge([1, 2, 3, 7], ACCEPT)
            ann.acknowledge([4], RELEASE)
            # when
            broker.kill()
        broker.restart()
        # then
        with worker(broker) as ann:
            came: list[int] = []
            while acquired := ann.fetch(max_wait_ms=500):
                came += acquired
            assert came == [0, 4, 5, 6, *range(8, 20)]


@pytest.mark.parametrize("kill_after_s", [0.05, 0.15, 0.3])
def test_kills_at_any_moment_lose_nothing(tmp_path: Path, kill_after_s: float) -> None:
    """Given a worker that accepts whatever it gets, when the broker is killed again and again, then every
    record comes, and none after it was accepted."""
    accepted: set[int] = set()
    perhaps: set[int] = set()
    """Accepted, but the broker was killed before it answered."""
    with OttlaBroker.start(tmp_path, settings=SETTINGS) as broker:
        begin(broker, 300)
        for _ in range(4):
            with worker(broker) as ann:
                timer = Timer(kill_after_s, broker.kill)
                timer.start()
                try:
                    while acquired := ann.fetch():
                        assert not accepted & set(acquired), "accepted records came again"
                        perhaps.update(acquired)
                        ann.acknowledge(acquired, ACCEPT)
                        accepted.update(acquired)
                except (ConnectionClosed, OSError):
                    pass
                timer.join()
            broker.restart()
        with worker(broker) as ann:
            while acquired := ann.fetch(max_wait_ms=500):
                assert not accepted & set(acquired), "accepted records came again"
                ann.acknowledge(acquired, ACCEPT)
                accepted.update(acquired)
    assert accepted | perhaps == set(range(300))


@pytest.mark.parametrize("kill_after_s", [0.05, 0.15, 0.3])
def test_rejected_records_get_to_the_queue_whenever_the_broker_is_killed(
    tmp_path: Path, kill_after_s: float
) -> None:
    """Given a worker that rejects every second record, when the broker is killed again and again, then the
    queue has each of them, perhaps twice, and no other."""
    rejected: set[int] = set()
    perhaps: set[int] = set()
    """Rejected, but the broker was killed before it answered."""
    with OttlaBroker.start(tmp_path, settings=SETTINGS) as broker:
        begin(broker, 300)
        use_a_queue(broker)
        for _ in range(5):
            with worker(broker) as ann:
                timer = Timer(kill_after_s, broker.kill)
                timer.start()
                try:
                    while acquired := ann.fetch():
                        assert not rejected & set(acquired), "rejected records came again"
                        odd = [offset for offset in acquired if offset % 2]
                        perhaps.update(odd)
                        ann.acknowledge(odd, REJECT)
                        rejected.update(odd)
                        ann.acknowledge([offset for offset in acquired if not offset % 2], ACCEPT)
                except (ConnectionClosed, OSError):
                    pass
                timer.join()
            broker.restart()
        with worker(broker) as ann:
            while acquired := ann.fetch(max_wait_ms=500):
                assert not rejected & set(acquired), "rejected records came again"
                odd = [offset for offset in acquired if offset % 2]
                ann.acknowledge(odd, REJECT)
                rejected.update(odd)
                ann.acknowledge([offset for offset in acquired if not offset % 2], ACCEPT)
            wait_for(lambda: rejected <= set(letters(ann.client)))
            assert set(letters(ann.client)) == rejected | perhaps == set(range(1, 300, 2))


def use_a_queue(broker: OttlaBroker) -> None:
    config = AlterableConfig(name="errors.deadletterqueue.topic.name", config_operation=0, value=QUEUE)
    resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[config])
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(QUEUE, config={"errors.deadletterqueue.group.enable": "true"})
        answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE


def letters(client: WireClient) -> list[int]:
    """The offsets that the queue's records name."""
    return [
        int(dict(record.headers)["__dlq.errors.offset"] or b"-1")
        for _, data in client.read_batches(QUEUE, 0)
        for record in decode_records(data)
    ]
