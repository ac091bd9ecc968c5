"""kill -9 in the middle of everything: every acknowledged record is there once, at its offset."""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import MetadataResponseTopic
from ottla.protocol.record_batch import decode_records
from support.clients.confluent import TIMEOUT_S, eventually, poll_messages
from support.clients.wire import ConnectionClosed, WireClient, batch
from support.exploration import DEEP, examples
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    "log_level": 0,  # the broker's absence is the point
}
#: Small segments and frequent checkpoints: kills meet rolling, flushing and checkpointing too.
BUSY_SETTINGS = {
    "log.initial.task.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "50",
    "log.flush.interval.messages": "2000",
    "file.delete.delay.ms": "100",
}


@dataclass(slots=True)
class Deliveries:
    """The broker's acknowledgements, as the producer's callbacks saw them."""

    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def __call__(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            number = int(message.value().split(b" ")[0])
            self.acknowledged[number] = (message.partition(), message.offset())


def create_topic(broker: OttlaBroker, topic: str, partitions: int) -> None:
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(topic, partitions, {"segment.bytes": "1048576"})


@contextmanager
def group_consumer(broker: OttlaBroker, group: str) -> Iterator[Consumer]:
    client = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            **QUICK,
        }
    )
    try:
        yield client
    finally:
        client.close()


def read_everything(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    """(partition, offset) -> value of every record, by plain fetches."""
    found: dict[tuple[int, int], bytes] = {}
    with WireClient.connect(bootstrap) as client:
        for partition in range(PARTITIONS):
            for _, data in client.read_batches(topic, partition):
                for record in decode_records(data):
                    found[partition, record.offset] = record.value or b""
    return found


@pytest.mark.slow
@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.long), "lz4"])
def test_idempotent_produce_loses_nothing_and_doubles_nothing(tmp_path: Path, codec: str) -> None:
    # given
    dice = random.Random(codec)
    deliveries = Deliveries()
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        create_topic(broker, "kept", PARTITIONS)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "message.timeout.ms": 120_000,
                **QUICK,
            }
        )
        # when the broker is killed again and again while batches are on their way
        number = 0
        for _ in range(examples(4, deep=8)):
            enough = len(deliveries.acknowledged) + dice.randrange(500, 2500)
            while len(deliveries.acknowledged) < enough:
                number = produce_some(producer, deliveries, number, 100)
            number = produce_some(producer, deliveries, number, dice.randrange(2000))
            broker.kill()
            number = produce_some(producer, deliveries, number, dice.randrange(500))
            broker.restart()
        assert producer.flush(60) == 0
        # then
        found = read_everything(broker.bootstrap, "kept")
    assert deliveries.failed == []
    assert len(deliveries.acknowledged) == number
    assert_once_and_in_place(deliveries, found, number)


def produce_some(producer: Producer, deliveries: Deliveries, first: int, count: int) -> int:
    """Queue `count` more numbers, waiting where the producer's queue is full; returns the next number."""
    for number in range(first, first + count):
        value = b"%d %s" % (number, b"x" * (number % 300))
        while True:
            try:
                producer.produce("kept", value, partition=number % PARTITIONS, on_delivery=deliveries)
                break
            except BufferError:
                producer.poll(0.05)
    producer.poll(0.005)
    return first + count


def assert_once_and_in_place(
    deliveries: Deliveries, found: dict[tuple[int, int], bytes], number: int
) -> None:
    for sent, place in deliveries.acknowledged.items():
        assert found[place].startswith(b"%d " % sent), place
    values = [int(value.split(b" ")[0]) for value in found.values()]
    assert len(values) == len(set(values)), "a record is there twice"
    assert set(values) <= set(range(number))
    offsets = defaultdict(list)
    for partition, offset in found:
        offsets[partition].append(offset)
    for partition, all_offsets in offsets.items():
        assert sorted(all_offsets) == list(range(len(all_offsets))), partition
        # one producer wrote the numbers in order, and no restart put one before another
        in_order = [int(found[partition, offset].split(b" ")[0]) for offset in sorted(all_offsets)]
        assert in_order == sorted(in_order), partition


@pytest.mark.slow
def test_a_broker_that_is_killed_while_it_starts_starts_the_next_time(tmp_path: Path) -> None:
    # given a broker with several segments, killed
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("kept", PARTITIONS, {"segment.bytes": "1048576"})
            for round_number in range(60):
                for partition in range(PARTITIONS):
                    value = b"%d " % round_number + bytes(1000)
                    assert client.produce("kept", partition, batch(50, value=value)).error_code == 0
        broker.kill()
        # when it is killed later and later in its start
        for tenth_ms in range(0, 8000, 400 if DEEP else 800):
            starting = subprocess.Popen(
                broker.server.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                starting.wait(tenth_ms / 10_000)
            except subprocess.TimeoutExpired:
                starting.kill()
            assert starting.wait(TIMEOUT_S) in (-9, 0)
        # then
        broker.restart()
        found = read_everything(broker.bootstrap, "kept")
    assert len(found) == 60 * 50 * PARTITIONS


@pytest.mark.slow
def test_kill_9_while_topics_come_and_go(tmp_path: Path) -> None:
    # given
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        topics = TopicChanges(broker.bootstrap)
        for kill in range(examples(5, deep=8)):
            # when
            with running(topics.change_until_the_broker_is_gone):
                topics.wait_for_changes(10 + 3 * kill)
                broker.kill()
            broker.restart()
            # then
            topics.check(broker.bootstrap)
        broker.stop()
        directories = {path.name for path in broker.data_dir.iterdir() if path.is_dir()}
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            listed = {topic.name for topic in all_topics(client)}
    # and no directory of a deleted topic passes for a live one
    assert {name.rsplit("-", 1)[0] for name in directories if name.rsplit("-", 1)[1].isdigit()} == {
        *listed,
        "__cluster_metadata",
    }


@dataclass(slots=True)
class TopicChanges:
    """Creates and deletes topics under few names, and knows what each must be after a kill."""

    bootstrap: str
    dice: random.Random = field(default_factory=lambda: random.Random(5))
    #: name -> records that must be there; None: deleted; absent: not known (a request without an answer)
    state: dict[str, int | None] = field(default_factory=dict)
    changes: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    problem: Exception | None = None

    def change_until_the_broker_is_gone(self) -> None:
        try:
            with WireClient.connect(self.bootstrap) as client:
                while True:
                    self._change(client)
                    with self.changed:
                        self.changes += 1
                        self.changed.notify_all()
        except (OSError, ConnectionClosed):
            return  # the broker was killed
        except Exception as problem:
            self.problem = problem
        finally:
            with self.changed:
                self.changed.notify_all()

    def wait_for_changes(self, count: int) -> None:
        with self.changed:
            enough = self.changes + count
            assert self.changed.wait_for(lambda: self.changes >= enough or self.problem, TIMEOUT_S)
        if self.problem is not None:
            raise self.problem

    def _change(self, client: WireClient) -> None:
        name = f"topic-{self.dice.randrange(6)}"
        exists = name in {topic.name for topic in all_topics(client)}
        # the effect of an unanswered request is unknown: such a topic is written to no more
        known = name in self.state
        assert not known or exists == (self.state[name] is not None), name
        if not exists:
            self.state.pop(name, None)
            client.create_topic(name, PARTITIONS)
            self.state[name] = 0
            self._write(client, name)
        elif self.dice.random() < 0.5:
            self.state.pop(name, None)
            delete_topic(client, name)
            self.state[name] = None
        elif known:
            self._write(client, name)

    def _write(self, client: WireClient, name: str) -> None:
        written = self.state.pop(name)
        assert written is not None
        answer = client.produce(name, 0, batch(5))
        assert answer.error_code == 0, answer
        assert answer.base_offset == written, "the topic made again has old records"
        self.state[name] = written + 5

    def check(self, bootstrap: str) -> None:
        if self.problem is not None:
            raise self.problem
        with WireClient.connect(bootstrap) as client:
            listed = {topic.name: topic for topic in all_topics(client)}
            for name, records in self.state.items():
                if records is None:
                    assert name not in listed, f"{name} was deleted and is there"
                else:
                    assert log_range(client, name) == (0, records), name
            for topic in listed.values():
                assert len(topic.partitions) == PARTITIONS
                for index in range(PARTITIONS):
                    before = log_range(client, topic.name, index)[1]
                    answer = client.produce(topic.name, index, batch())
                    assert (answer.error_code, answer.base_offset) == (0, before)
                    if index == 0 and topic.name in self.state:
                        self.state[topic.name] = before + 1


def all_topics(client: WireClient) -> list[MetadataResponseTopic]:
    return list(client.call(MetadataRequest(topics=None), 12).topics)


def log_range(client: WireClient, topic: str, partition: int = 0) -> tuple[int, int]:
    """The first offset and the one after the last."""
    bounds = []
    for timestamp in (-2, -1):
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        answer = client.call(request, 7).topics[0].partitions[0]
        assert answer.error_code == 0, answer
        bounds.append(answer.offset)
    return bounds[0], bounds[1]


@contextmanager
def running(work: Callable[[], None]) -> Iterator[None]:
    """`work` in a thread of its own while the block runs; it must end by itself soon after."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


def delete_topic(client: WireClient, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    assert client.call(request).responses[0].error_code == 0


def test_a_topic_made_again_does_not_start_where_the_old_one_did(tmp_path: Path) -> None:
    # given a topic whose log starts at 50
    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("again")
            client.produce("again", 0, batch(100))
            delete = DeleteRecordsPartition(partition_index=0, offset=50)
            topics = [DeleteRecordsTopic(name="again", partitions=[delete])]
            answer = client.call(DeleteRecordsRequest(timeout_ms=10_000, topics=topics))
            assert answer.topics[0].partitions[0].error_code == 0
            broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            assert log_range(client, "again") == (50, 100)
            # when it is deleted, made again, written, and the broker is killed
            delete_topic(client, "again")
            client.create_topic("again")
            assert client.produce("again", 0, batch(10)).base_offset == 0
        broker.kill()
        broker.restart()
        # then
        with WireClient.connect(broker.bootstrap) as client:
            assert log_range(client, "again") == (0, 10)


def test_a_directory_of_a_topic_deleted_and_made_again_before_the_kill_is_set_aside(tmp_path: Path) -> None:
    # given a directory that outlived its topic, as a kill between the metadata and the rename leaves it
    data = tmp_path / "data"
    with OttlaBroker.start(data) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("again")
            client.produce("again", 0, batch(100))
            shutil.copytree(data / "again-0", tmp_path / "old")
            delete_topic(client, "again")
            client.create_topic("again")
        broker.kill()
        shutil.rmtree(data / "again-0")
        shutil.copytree(tmp_path / "old", data / "again-0")
        # when
        broker.restart()
        # then
        with WireClient.connect(broker.bootstrap) as client:
            assert log_range(client, "again") == (0, 0)
            assert client.produce("again", 0, batch()).base_offset == 0
        assert len(list(data.glob("again-0.*-stray"))) == 1


@pytest.mark.slow
def test_kill_9_between_group_commits_keeps_the_last_answered_one(tmp_path: Path) -> None:
    # given a consumer that commits rising offsets one after another
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        create_topic(broker, "read", 1)
        commits = Commits(broker.bootstrap)
        with running(commits.commit_until_told), group_consumer(broker, "committer") as reader:
            try:
                for kill in range(6):
                    # when
                    commits.wait_for_answers(20 + 7 * kill)
                    broker.kill()
                    answered = commits.answered
                    broker.restart()
                    # then
                    (committed,) = reader.committed([TopicPartition("read", 0)], timeout=TIMEOUT_S)
                    assert answered <= committed.offset <= commits.asked
                    assert committed.metadata == f"note {committed.offset}"
            finally:
                commits.over = True


@dataclass(slots=True)
class Commits:
    """Commits, and knows which were asked for and which were answered."""

    bootstrap: str
    asked: int = 0
    answered: int = 0
    over: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def commit_until_told(self) -> None:
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "committer", **QUICK})
        try:
            while not self.over:
                self.asked += 1
                wanted = TopicPartition("read", 0, self.asked, f"note {self.asked}")
                try:
                    client.commit(offsets=[wanted], asynchronous=False)
                except KafkaException:
                    continue  # the broker went away under it
                with self.changed:
                    self.answered = self.asked
                    self.changed.notify_all()
        finally:
            client.close()

    def wait_for_answers(self, count: int) -> None:
        with self.changed:
            enough = self.answered + count
            assert self.changed.wait_for(lambda: self.answered >= enough, 60)


@pytest.mark.slow
def test_a_group_reads_on_across_kills(tmp_path: Path) -> None:
    # given
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        create_topic(broker, "read", PARTITIONS)
        values = [b"%d" % number for number in range(3000)]
        seen: list[bytes] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **QUICK})
        with group_consumer(broker, "readers") as reader:
            reader.subscribe(["read"])
            for start in range(0, 3000, 1000):
                for value in values[start : start + 1000]:
                    producer.produce("read", value)
                assert producer.flush(TIMEOUT_S) == 0
                while len(set(seen)) < start + 500:
                    seen += [message.value() for message in poll_messages(reader, 1, 60)]
                # when
                commit_until_answered(reader)
                broker.kill()
                broker.restart()
            while len(set(seen)) < len(values):
                seen += [message.value() for message in poll_messages(reader, 1, 60)]
        # then every value was read; some may have been read twice, those after the last commit
        assert set(seen) == set(values)


def commit_until_answered(reader: Consumer) -> None:
    """Commit what was read; a rebalance in progress asks to come again."""

    def committed() -> bool:
        try:
            reader.commit(asynchronous=False)
        except KafkaException as problem:
            assert problem.args[0].code() in {
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }, problem
            reader.poll(0.1)
            return False
        return True

    eventually(committed, "the commit is answered", 60)


@pytest.mark.slow
def test_acknowledged_topics_survive_a_kill_at_once(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        for round_number in range(5):
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUICK})
            names = [f"round-{round_number}-{number}" for number in range(5)]
            for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
                future.result(TIMEOUT_S)
            broker.kill()
            broker.restart()
            with WireClient.connect(broker.bootstrap) as client:
                assert set(names) <= {topic.name for topic in all_topics(client)}


@pytest.mark.slow
def test_what_an_admin_was_told_survives_a_kill_at_once(tmp_path: Path) -> None:
    producer_ids: list[int] = []
    with OttlaBroker.start(tmp_path / "data", settings=BUSY_SETTINGS) as broker:
        create_topic(broker, "changed", 1)
        for round_number in range(1, 6):
            # when
            with WireClient.connect(broker.bootstrap) as client:
                for _ in range(3):
                    answer = client.call(InitProducerIdRequest(transactional_id=None), 4)
                    assert (answer.error_code, answer.producer_epoch) == (0, 0)
                    producer_ids.append(answer.producer_id)
                assert client.produce("changed", 0, batch(10)).base_offset == 10 * (round_number - 1)
                more = CreatePartitionsTopic(name="changed", count=round_number + 1, assignments=None)
                answer = client.call(CreatePartitionsRequest(topics=[more], timeout_ms=10_000))
                assert answer.results[0].error_code == 0
                change = AlterableConfig(
                    name="retention.ms", config_operation=0, value=str(round_number * 10**12)
                )
                resource = AlterConfigsResource(resource_type=2, resource_name="changed", configs=[change])
                answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
                assert answer.responses[0].error_code == 0
                start = DeleteRecordsPartition(partition_index=0, offset=10 * round_number - 5)
                topics = [DeleteRecordsTopic(name="changed", partitions=[start])]
                answer = client.call(DeleteRecordsRequest(timeout_ms=10_000, topics=topics))
                assert answer.topics[0].partitions[0].error_code == 0
            broker.kill()
            broker.restart()
            # then
            with WireClient.connect(broker.bootstrap) as client:
                (topic,) = client.topic_metadata("changed").topics
                assert len(topic.partitions) == round_number + 1
                assert log_range(client, "changed") == (10 * round_number - 5, 10 * round_number)
                wanted = DescribeConfigsResource(
                    resource_type=2, resource_name="changed", configuration_keys=["retention.ms"]
                )
                described = client.call(DescribeConfigsRequest(resources=[wanted])).results[0]
                assert [each.value for each in described.configs] == [str(round_number * 10**12)]
    assert len(set(producer_ids)) == len(producer_ids)
