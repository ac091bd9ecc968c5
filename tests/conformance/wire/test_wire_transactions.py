"""The transaction coordinator's APIs in every version, asked by hand: answers, errors, epochs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready, settled
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

FENCED = ErrorCode.PRODUCER_FENCED
OLD_FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
INVALID = ErrorCode.INVALID_TXN_STATE
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE = ErrorCode.NONE
TOPIC_RESOURCE = 2
SET_FOR_THE_TOPIC = 1


@pytest.fixture
def client(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as connected:
        yield connected


def new_producer(client: WireClient, *, v2: bool = False) -> TransactionalProducer:
    """A producer with a fresh transactional id, initialised: epoch 0."""
    name = f"txn-{uuid.uuid4().hex[:12]}"
    coordinator_ready(client, name)
    producer = TransactionalProducer(client, name, v2)
    assert producer.initialise() is NONE
    assert producer.epoch == 0
    return producer


@pytest.fixture
def topic(client: WireClient, unique_name: str) -> str:
    client.create_topic(unique_name, partitions=2)
    return unique_name


# --- FindCoordinator and InitProducerId --------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_a_coordinator_is_found_by_transactional_id(client: WireClient, version: int) -> None:
    coordinator_ready(client, "x")
    if version < 4:
        found = client.call(FindCoordinatorRequest(key="x", key_type=1), version)
    else:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
        found = client.call(request, version).coordinators[0]
    assert (found.error_code, found.node_id) == (NONE, 1)


def test_the_topic_of_transaction_states_has_settings_of_its_own(client: WireClient) -> None:
    # given
    coordinator_ready(client, "x")
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="__transaction_state")
    # when
    (result,) = client.call(DescribeConfigsRequest(resources=[resource])).results
    # then
    own = {each.name: each.value for each in result.configs if each.config_source == SET_FOR_THE_TOPIC}
    assert own == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    (topic,) = client.topic_metadata("__transaction_state").topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 4)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_every_initialisation_raises_the_epoch(client: WireClient, version: int) -> None:
    producer = new_producer(client)
    answer = producer.ask_initialise(version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, producer.producer_id, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(client: WireClient, timeout_ms: int) -> None:
    answer = TransactionalProducer(client, "bounds").ask_initialise(timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_an_empty_transactional_id_is_refused(client: WireClient) -> None:
    answer = TransactionalProducer(client, "").ask_initialise()
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 0)])
def test_half_of_a_position_is_refused(client: WireClient, producer_id: int, epoch: int) -> None:
    request = InitProducerIdRequest(
        transactional_id="half",
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    assert client.call(request, 4).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "fenced"), [(3, OLD_FENCED), (4, FENCED), (5, FENCED)])
def test_a_producer_goes_on_only_from_the_current_position(
    client: WireClient, version: int, fenced: ErrorCode
) -> None:
    # given
    producer = new_producer(client)
    producer_id = producer.producer_id

    def goes_on(producer_id: int, epoch: int) -> tuple[int, int]:
        answer = producer.ask_initialise(version, producer_id, epoch)
        return answer.error_code, answer.producer_epoch

    # then: from where it is, and again if the answer was lost
    assert goes_on(producer_id, 0) == (NONE, 1)
    assert goes_on(producer_id, 0) == (NONE, 1)
    assert goes_on(producer_id, 1) == (NONE, 2)
    # but not from before, or from nowhere
    assert goes_on(producer_id, 0) == (fenced, -1)
    assert goes_on(producer_id, 7) == (fenced, -1)
    assert goes_on(producer_id + 1_000_000, 2) == (fenced, -1)


def test_an_unknown_transactional_id_may_come_with_a_position(client: WireClient) -> None:
    name = f"txn-{uuid.uuid4().hex}"
    coordinator_ready(client, name)
    foreign = 2**40  # no cluster of tests gets there by itself
    answer = TransactionalProducer(client, name).ask_initialise(5, foreign, 4)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    assert answer.producer_id != foreign


def test_initialisation_aborts_an_ongoing_transaction(client: WireClient, topic: str) -> None:
    # given
    producer = new_producer(client)
    producer.begin(topic)
    # when
    first = producer.ask_initialise()
    # then: the epoch in between is nobody's
    assert first.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    producer.wait_for_state("CompleteAbort")
    assert producer.described().producer_epoch == 1
    assert producer.initialise() is NONE
    assert producer.epoch == 2


# --- AddPartitionsToTxn, AddOffsetsToTxn ------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_partitions_are_added(client: WireClient, topic: str, version: int) -> None:
    # given
    producer = new_producer(client)
    # when
    assert producer.add_partitions(topic, [0], version) == [NONE]
    assert producer.add_partitions(topic, [0, 1], version) == [NONE, NONE]
    # then
    state = producer.described()
    assert (state.transaction_state, state.producer_epoch) == ("Ongoing", 0)
    assert [(each.topic, sorted(each.partitions)) for each in state.topics] == [(topic, [0, 1])]
    assert state.transaction_timeout_ms == 60_000
    assert state.transaction_start_time_ms > 0


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 5])
def test_partitions_are_not_added_for_strangers(client: WireClient, topic: str, version: int) -> None:
    producer = new_producer(client)
    fenced = FENCED if version >= 2 else OLD_FENCED
    unknown = TransactionalProducer(client, producer.name + "-x", False, producer.producer_id, 0)
    coordinator_ready(client, unknown.name)
    assert unknown.add_partitions(topic, [0], version) == [MAPPING]
    for epoch, expected in ((1, fenced), (-1, fenced)):
        other = TransactionalProducer(client, producer.name, False, producer.producer_id, epoch)
        assert other.add_partitions(topic, [0], version) == [expected]
    other = TransactionalProducer(client, producer.name, False, producer.producer_id + 1, 0)
    assert other.add_partitions(topic, [0], version) == [MAPPING]


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_a_partition_that_does_not_exist_keeps_the_others_out(
    client: WireClient, topic: str, version: int
) -> None:
    producer = new_producer(client)
    assert producer.add_partitions(topic, [0, 9], version) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert producer.described().transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_whether_partitions_belong_to_a_transaction(
    client: WireClient, topic: str, version: int
) -> None:
    # given
    producer = new_producer(client)
    assert producer.add_partitions(topic, [0]) == [NONE]
    # then
    verify = producer.add_partitions(topic, [0, 1], version, verify_only=True)
    assert verify == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert [list(each.partitions) for each in producer.described().topics] == [[0]]
    producer.epoch = 3
    assert producer.add_partitions(topic, [0], version, verify_only=True) == [FENCED]
    producer.producer_id += 1
    assert producer.add_partitions(topic, [0], version, verify_only=True) == [MAPPING]


def test_brokers_ask_for_several_transactions_at_once(client: WireClient, topic: str) -> None:
    # given
    producers = [new_producer(client) for _ in range(2)]
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=number,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        for number, producer in enumerate(producers)
    ]
    # when
    answer = client.call(AddPartitionsToTxnRequest(transactions=transactions), 5)
    # then: each has its own answer
    errors = {
        result.transactional_id: result.topic_results[0].results_by_partition[0].partition_error_code
        for result in answer.results_by_transaction
    }
    assert errors == {producers[0].name: NONE, producers[1].name: FENCED}
    assert answer.error_code == NONE


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_groups_offsets_join_a_transaction(client: WireClient, version: int) -> None:
    # given
    producer = new_producer(client)
    wait_for(
        lambda: client.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators[0].error_code == 0
    )
    # when
    assert producer.add_offsets("g", version) is NONE
    # then
    state = producer.described()
    assert state.transaction_state == "Ongoing"
    assert [each.topic for each in state.topics] == ["__consumer_offsets"]
    producer.epoch = 5
    assert producer.add_offsets("g", version) is (FENCED if version >= 2 else OLD_FENCED)
    producer.producer_id += 1
    assert producer.add_offsets("g", version) is MAPPING


# --- EndTxn -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends_as_it_is_told(
    client: WireClient, topic: str, version: int, committed: bool
) -> None:
    # given
    producer = new_producer(client)
    producer.begin(topic)
    # when
    answer = producer.end(committed=committed, version=version)
    # then
    assert answer.error_code == NONE
    state = "CompleteCommit" if committed else "CompleteAbort"
    producer.wait_for_state(state)
    described = producer.described()
    assert (described.producer_epoch, described.topics) == (0, [])
    # and again, and otherwise
    assert producer.end(committed=committed, version=version).error_code == NONE
    assert producer.end(committed=not committed, version=version).error_code == INVALID


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_transaction_that_was_not_begun_does_not_end(client: WireClient, version: int) -> None:
    producer = new_producer(client)
    fenced = FENCED if version >= 2 else OLD_FENCED
    assert producer.end(committed=True, version=version).error_code == INVALID
    assert producer.end(committed=False, version=version).error_code == INVALID
    assert producer.end(committed=True, version=version, epoch=4).error_code == fenced
    producer.producer_id += 1
    assert producer.end(committed=True, version=version).error_code == MAPPING
    producer.name += "-x"
    coordinator_ready(client, producer.name)
    assert producer.end(committed=True, version=version).error_code == MAPPING


@pytest.mark.parametrize("committed", [True, False])
def test_under_v2_every_end_raises_the_epoch(client: WireClient, topic: str, committed: bool) -> None:
    # given
    producer = new_producer(client, v2=True)
    producer.begin(topic)
    # when
    answer = producer.end(committed=committed)
    # then
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, producer.producer_id, 1)
    producer.wait_for_state("CompleteCommit" if committed else "CompleteAbort")
    assert producer.described().producer_epoch == 1


def test_under_v2_a_repeated_end_is_told_from_the_next(client: WireClient, topic: str) -> None:
    # given: a transaction that was committed
    producer = new_producer(client, v2=True)
    producer.begin(topic)
    producer.commit()
    producer.wait_for_state("CompleteCommit")

    def ends(committed: bool, epoch: int) -> tuple[int, int]:
        answer = producer.end(committed=committed, epoch=epoch)
        return answer.error_code, answer.producer_epoch

    # then: repeated
    assert ends(True, 0) == (NONE, 1)
    assert ends(False, 0) == (INVALID, -1)
    # a commit of an empty transaction
    assert ends(True, 1) == (INVALID, -1)
    # another producer's
    assert ends(True, 7) == (FENCED, -1)
    # an abort to be sure
    assert ends(False, 1) == (NONE, 2)
    producer.wait_for_state("CompleteAbort")
    assert ends(False, 1) == (NONE, 2)
    assert ends(True, 1) == (INVALID, -1)
    assert ends(True, 2) == (INVALID, -1)
    assert ends(False, 2) == (NONE, 3)


def test_under_v2_a_transaction_that_was_not_begun_is_aborted_but_not_committed(client: WireClient) -> None:
    producer = new_producer(client, v2=True)
    assert producer.end(committed=True).error_code == INVALID
    assert producer.end(committed=True, epoch=3).error_code == FENCED
    answer = producer.end(committed=False)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 1)
    producer.wait_for_state("CompleteAbort")


def test_under_v2_a_late_request_is_fenced(client: WireClient, topic: str) -> None:
    # given
    producer = new_producer(client, v2=True)
    assert producer.produce(topic, b"1") is NONE
    producer.commit()
    producer.wait_for_state("CompleteCommit")
    # when: from the transaction before
    producer.epoch, producer.sequence = 0, 1
    # then
    assert producer.add_partitions(topic, [0], 5) == [FENCED]
    assert producer.produce(topic, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH


def test_under_v2_the_broker_adds_the_partitions_of_produced_batches(client: WireClient, topic: str) -> None:
    # given
    producer = new_producer(client, v2=True)
    # when
    assert producer.produce(topic, b"1") is NONE
    # then
    state = producer.described()
    assert state.transaction_state == "Ongoing"
    assert [(each.topic, list(each.partitions)) for each in state.topics] == [(topic, [0])]


# --- DescribeTransactions, ListTransactions ----------------------------------------------------------------


def test_unknown_ids_are_described_as_such(client: WireClient) -> None:
    name = f"txn-{uuid.uuid4().hex}"
    coordinator_ready(client, name)
    answer = client.call(DescribeTransactionsRequest(transactional_ids=[name, ""]))
    assert [(each.transactional_id, each.error_code) for each in answer.transaction_states] == [
        (name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]


def test_transactions_are_listed_by_state_producer_duration_and_pattern(
    client: WireClient, topic: str
) -> None:
    # given
    idle, ongoing = new_producer(client), new_producer(client)
    ongoing.begin(topic)
    mine = {idle.name, ongoing.name}

    def listed(version: int = 2, **filters: object) -> dict[str, str]:
        answer = client.call(ListTransactionsRequest(**filters), version)
        assert answer.error_code == NONE
        assert answer.unknown_state_filters == []
        found = {each.transactional_id: each.transaction_state for each in answer.transaction_states}
        return {name: state for name, state in found.items() if name in mine}

    # then
    everything = {idle.name: "Empty", ongoing.name: "Ongoing"}
    assert listed() == listed(1) == listed(0) == everything
    assert listed(state_filters=["Ongoing"]) == {ongoing.name: "Ongoing"}
    assert listed(state_filters=["Ongoing", "Empty"]) == everything
    assert listed(producer_id_filters=[idle.producer_id]) == {idle.name: "Empty"}
    assert listed(duration_filter=3_600_000) == {idle.name: "Empty"}, "it has no start"
    assert listed(transactional_id_pattern="txn-[0-9a-f]+") == everything
    assert listed(transactional_id_pattern=f".*{idle.name[4:]}") == {idle.name: "Empty"}
    assert listed(transactional_id_pattern=idle.name[4:]) == {}, "the whole id must match"
    assert listed(transactional_id_pattern="") == everything


def test_unknown_states_are_told_and_match_nothing(client: WireClient) -> None:
    new_producer(client)
    answer = client.call(ListTransactionsRequest(state_filters=["Sleeping"]), 2)
    assert answer.error_code == NONE
    assert list(answer.unknown_state_filters) == ["Sleeping"]
    assert answer.transaction_states == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=x)", r"(a)\1"])
def test_a_pattern_that_is_none_is_refused(client: WireClient, pattern: str) -> None:
    answer = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# --- time and features --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "next_epoch"), [(2, 2), (0, 2)])
def test_a_transaction_that_takes_too_long_is_aborted(
    start_own: Callable[..., AbstractContextManager[Cluster]], level: int, next_epoch: int
) -> None:
    interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with start_own(settings=interval) as own, WireClient.connect(own.bootstrap) as client:
        # given
        client.create_topic("t")
        downgraded(client, level)
        producer = new_producer(client)
        assert producer.initialise(timeout_ms=300) is NONE
        assert producer.epoch == 1
        producer.begin("t")
        assert producer.produce("t", b"late") is NONE
        # when
        producer.wait_for_state("CompleteAbort")
        # then
        assert producer.described().producer_epoch == 2
        assert producer.end(committed=True).error_code == FENCED
        assert producer.add_partitions("t") == [FENCED]
        assert producer.produce("t", b"later") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert producer.initialise() is NONE
        assert producer.epoch == next_epoch + 1


@pytest.mark.parametrize("level", [0, 1])
def test_the_clusters_transaction_version_may_go_down_and_up(
    start_own: Callable[..., AbstractContextManager[Cluster]], level: int
) -> None:
    with start_own() as own, WireClient.connect(own.bootstrap) as client:
        client.create_topic("t")
        producer = new_producer(client)
        for now in (level, 2):
            # when
            downgraded(client, now)
            # then: a producer of transactions v1 and one of v2 both go on
            epoch = producer.epoch
            producer.begin("t")
            assert producer.end(committed=True).error_code == NONE
            producer.wait_for_state("CompleteCommit")
            assert producer.described().producer_epoch == epoch
        producer.v2 = True
        producer.begin("t")
        producer.commit()
        assert producer.epoch == epoch + 1


def downgraded(client: WireClient, level: int) -> None:
    """Finalize this level of transaction.version."""
    from ottla.protocol.messages.api_versions_request import ApiVersionsRequest

    def current() -> int:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        features = client.call(request, 4).finalized_features
        levels = {each.name: each.max_version_level for each in features}
        return int(levels.get("transaction.version", 0))

    if current() == level:
        return
    update = FeatureUpdateKey(
        feature="transaction.version",
        max_version_level=level,
        upgrade_type=1 if level > current() else 2,
    )
    answer = settled(lambda: client.call(UpdateFeaturesRequest(feature_updates=[update]), 1))
    assert answer.error_code == NONE, answer
    wait_for(lambda: current() == level)
