"""`__transaction_state` on disk is Kafka's: its tool reads it, its broker goes on with it, gives it back."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordinators.coordinator_shard import encode_record
from ottla.core.coordination.partitioning import partition_for
from ottla.core.decisions.topic_names import ADMIN_CLIENT_ID
from ottla.core.transactions.log_records import transaction_record
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.record_batch import encode_batch
from support.clients.named_states import plain_name
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready
from support.clients.wire import WireClient, wait_for
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import CONFORMANCE_SETTINGS
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.java

TOPIC = "t"
PARTITIONS = int(CONFORMANCE_SETTINGS["transaction.state.log.num.partitions"])
NONE = ErrorCode.NONE
EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4


def dump(data: Path, transactional_id: str) -> list[tuple[Any, Any]]:
    """Version and fields of a transactional id's records, by DumpLogSegments."""
    partition = partition_for(transactional_id, PARTITIONS)
    file = data / f"__transaction_state-{partition}" / "00000000000000000000.log"
    run = run_java(
        "org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(file)
    )
    assert run.returncode == 0, run.stderr
    assert set(re.findall(r"isvalid: (\w+)", run.stdout)) == {"true"}
    found = []
    for key, payload in re.findall(r"key: (\{.*?\}\}) payload: (\{.*\})", run.stdout):
        if json.loads(key)["data"]["transactionalId"] == transactional_id:
            value = json.loads(payload)
            found.append((value["version"], value["data"]))
    return found


def producer_on(client: WireClient, name: str, *, v2: bool = True) -> TransactionalProducer:
    coordinator_ready(client, name)
    return TransactionalProducer(client, name, v2)


def test_kafkas_tool_reads_every_record(tmp_path: Path) -> None:
    # given
    data = tmp_path / "logs"
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic(TOPIC, 2)
        name = plain_name()
        producer = producer_on(client, name)
        assert producer.initialise() is NONE
        assert producer.produce(TOPIC, b"1") is NONE
        producer.commit()
        producer.wait_for_state("CompleteCommit")
    # when
    records = dump(data, name)
    # then
    assert [version for version, _ in records] == ["1"] * 4
    values = [value for _, value in records]
    assert [value["transactionStatus"] for value in values] == [
        EMPTY,
        ONGOING,
        PREPARE_COMMIT,
        COMPLETE_COMMIT,
    ]
    assert [value["producerEpoch"] for value in values] == [0, 0, 1, 1]
    assert [value["transactionPartitions"] for value in values] == [
        None,
        [{"topic": TOPIC, "partitionIds": [0]}],
        [{"topic": TOPIC, "partitionIds": [0]}],
        [],
    ]
    assert [value.get("clientTransactionVersion") for value in values] == [None, 2, 2, 2]


def test_apache_kafka_goes_on_with_transactional_ids_and_gives_them_back(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    # given: an id that is done, one in the middle, one whose end was decided
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic(TOPIC, 3)
        done, open_, v1 = (producer_on(client, plain_name()) for _ in range(3))
        v1.v2 = False
        for producer in (done, open_, v1):
            assert producer.initialise() is NONE
        assert done.produce(TOPIC, b"a", 0) is NONE
        done.commit()
        assert open_.produce(TOPIC, b"b", 1) is NONE
        v1.begin(TOPIC, [2])
        assert v1.produce(TOPIC, b"c", 2) is NONE
        done.wait_for_state("CompleteCommit")
    # when: Apache Kafka takes the directory over
    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        for producer in (done, open_, v1):
            producer.client = client
            coordinator_ready(client, producer.name)
        # then: everybody goes on where they were
        assert done.described().producer_epoch == 1
        assert done.produce(TOPIC, b"a2", 0) is NONE
        done.commit()
        assert (done.producer_id, done.epoch) == (done.producer_id, 2)
        assert open_.produce(TOPIC, b"b2", 1) is NONE
        assert open_.described().transaction_state == "Ongoing"
        v1.commit()
        v1.wait_for_state("CompleteCommit")
        assert v1.initialise() is NONE
        assert v1.epoch == 1
        done.wait_for_state("CompleteCommit")
    # when: and back
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        for producer in (done, open_, v1):
            producer.client = client
            coordinator_ready(client, producer.name)
        # then
        assert (done.described().transaction_state, done.described().producer_epoch) == ("CompleteCommit", 2)
        assert open_.produce(TOPIC, b"b3", 1) is NONE
        open_.commit()
        open_.wait_for_state("CompleteCommit")
        assert done.initialise() is NONE
        assert done.epoch == 3
        v1.begin(TOPIC, [2])
        assert v1.produce(TOPIC, b"c2", 2) is NONE
        v1.commit()
        v1.wait_for_state("CompleteCommit")
        wait_for(lambda: [len(client.read_batches(TOPIC, index)) for index in range(3)] == [4, 4, 4])
    assert [value["transactionStatus"] for _, value in dump(data, open_.name)][-1] == COMPLETE_COMMIT


def coordinator_epoch(client: WireClient, producer_id: int) -> int:
    """That of the producer's last marker in the topic's first partition."""
    asked = TopicRequest(name=TOPIC, partition_indexes=[0])
    answer = client.call(DescribeProducersRequest(topics=[asked])).topics[0].partitions[0]
    (found,) = [each for each in answer.active_producers if each.producer_id == producer_id]
    return int(found.coordinator_epoch)


@pytest.mark.long
def test_kafka_passes_over_the_lead_of_an_id_that_came_from_another_partition(tmp_path: Path) -> None:
    data, name, lead = tmp_path / "logs", plain_name(), 5
    partition = partition_for(name, PARTITIONS)
    # given: an id whose markers are ahead of its partition's leader epoch, as those of one that moved are
    with OttlaBroker.start(data) as broker:
        with (
            WireClient.connect(broker.bootstrap) as client,
            WireClient.connect(broker.bootstrap, ADMIN_CLIENT_ID) as admin,
        ):
            client.create_topic(TOPIC, 2)
            producer = producer_on(client, name)
            assert producer.initialise() is NONE
            assert producer.produce(TOPIC, b"a", 0) is NONE
            producer.commit()
            producer.wait_for_state("CompleteCommit")
            before = coordinator_epoch(client, producer.producer_id)
            held = Transaction(
                producer.producer_id,
                producer.epoch,
                60_000,
                TransactionState.COMPLETE_COMMIT,
                last_update_ms=int(time.time() * 1000),
                client_version=2,
                coordinator_epoch_lead=lead,
            )
            record = encode_record(transaction_record(name, held, 2), held.last_update_ms)
            assert admin.produce("__transaction_state", partition, encode_batch([record])).error_code == 0
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            producer = producer_on(client, name)
            assert producer.initialise() is NONE
            assert producer.produce(TOPIC, b"b", 0) is NONE
            producer.commit()
            producer.wait_for_state("CompleteCommit")
            # then: they stay so
            assert coordinator_epoch(client, producer.producer_id) >= before + lead
    # and: Kafka's tool and Kafka read the records as if there were no lead
    assert dump(data, name)[-1][1]["transactionStatus"] == COMPLETE_COMMIT
    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        producer.client = client
        coordinator_ready(client, name)
        assert producer.described().transaction_state == "CompleteCommit"
        assert producer.described().producer_epoch == producer.epoch
        assert producer.produce(TOPIC, b"c", 1) is NONE
        producer.commit()
        producer.wait_for_state("CompleteCommit")
        wait_for(lambda: client.fetch(TOPIC, [1])[1].last_stable_offset == 2)
