"""Transactions of a cluster: listed, described, found where they hang, ended from outside (KIP-664).

A transaction hangs in a partition where its coordinator does not know of it any more: no marker will ever
come, and readers of committed records wait at its first record for ever.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.cluster_requests import (
    COORDINATOR_MOVED,
    ClusterRequests,
    CoordinatorType,
    TopicPartition,
    by_topic,
    refusal,
    require_success,
)
from ottla.client.errors import ClusterError
from ottla.client.kafka_requests import RequestByVersion
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_producers_response import DescribeProducersResponse
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

DURATION_SINCE: Final = 1
PATTERN_SINCE: Final = 2
PAUSE_SECONDS: Final = 0.1
FENCING_TIMEOUT_MS: Final = 60_000
"""The transaction timeout that a fenced transactional id gets, until its producer starts again."""
PARTITIONS_A_REQUEST: Final = 500


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id and its transaction. start_ms: None without one. coordinator: None if not known."""

    transactional_id: str
    coordinator: int | None
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that a partition knows; -1 for none. txn_start_offset: of its open transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int

    @property
    def in_transaction(self) -> bool:
        """Whether it has an open transaction in the partition."""
        return self.txn_start_offset >= 0


# -- listing -----------------------------------------------------------------------------------------------


async def list_transactions(
    client: ClusterRequests,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """The transactional ids of all brokers, sorted; empty filters let all through.

    longer_than_ms: only those whose transaction runs longer. pattern: a regular expression of the whole id.
    Raises ClusterError: for a state that no broker knows, a pattern that can't be read, a broker that does
    not answer.
    """
    local = None

    def request(version: int) -> ListTransactionsRequest:
        nonlocal local
        if longer_than_ms is not None and version < DURATION_SINCE:
            raise ClusterError(
                "a broker cannot filter transactions by their duration", ErrorCode.UNSUPPORTED_VERSION
            )
        if pattern is not None and version < PATTERN_SINCE:
            local = _compiled(pattern)
        return ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern if version >= PATTERN_SINCE else None,
        )

    answers = await _all_answers(client, RequestByVersion(ApiKey.LIST_TRANSACTIONS, request))
    found = []
    for node_id, answer in answers.items():
        require_success(answer.error_code, None, f"broker {node_id}")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise ClusterError(f"there is no transaction state {unknown}", ErrorCode.INVALID_REQUEST)
        found += [
            ListedTransaction(one.transactional_id, node_id, one.producer_id, one.transaction_state)
            for one in answer.transaction_states
            if local is None or local.fullmatch(one.transactional_id)
        ]
    return sorted(found, key=lambda one: one.transactional_id)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ClusterError(
            f"{pattern} is no regular expression: {problem}", ErrorCode.INVALID_REGULAR_EXPRESSION
        ) from None


async def _all_answers(
    client: ClusterRequests, request: RequestByVersion
) -> dict[int, ListTransactionsResponse]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + client.timeout_seconds
    while True:
        found: dict[int, ListTransactionsResponse] = {}
        for node_id, answer in (await client.ask_all(request, ListTransactionsResponse)).items():
            if isinstance(answer, ClusterError):
                raise answer
            found[node_id] = answer
        loading = any(answer.error_code in COORDINATOR_MOVED for answer in found.values())
        if not loading or loop.time() >= deadline:
            return found
        await asyncio.sleep(PAUSE_SECONDS)


# -- describing --------------------------------------------------------------------------------------------


async def describe_transactions(
    client: ClusterRequests, transactional_ids: Iterable[str]
) -> dict[str, Transaction | ClusterError]:
    """Each transactional id, or its error: TRANSACTIONAL_ID_NOT_FOUND for one that is not there."""
    wanted = list(dict.fromkeys(transactional_ids))

    def request(some: Sequence[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=list(some))

    def parts(answer: Any) -> Iterable[tuple[str, int, Any]]:
        for one in answer.transaction_states:
            error = refusal(one.error_code, None, one.transactional_id) if one.error_code else None
            yield one.transactional_id, one.error_code, error or one

    described = await client.ask_coordinators(
        CoordinatorType.TRANSACTION, wanted, request, DescribeTransactionsResponse, parts
    )
    coordinators = await client.coordinators(CoordinatorType.TRANSACTION, wanted)
    found: dict[str, Transaction | ClusterError] = {}
    for transactional_id, one in described.items():
        place = coordinators[transactional_id]
        found[transactional_id] = (
            one
            if isinstance(one, ClusterError)
            else Transaction(
                transactional_id,
                None if isinstance(place, ClusterError) else place.node_id,
                one.producer_id,
                one.producer_epoch,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
                tuple(
                    sorted(
                        TopicPartition(topic.topic, part) for topic in one.topics for part in topic.partitions
                    )
                ),
            )
        )
    return found


async def describe_producers(
    client: ClusterRequests, partitions: Sequence[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ActiveProducer] | ClusterError]:
    """The producers that each partition knows: on its leader, or on the replica of one broker."""

    def request(some: Sequence[TopicPartition]) -> DescribeProducersRequest:
        topics = [TopicRequest(name=topic, partition_indexes=part) for topic, part in by_topic(some).items()]
        return DescribeProducersRequest(topics=topics)

    def parts(
        answer: DescribeProducersResponse,
    ) -> Iterable[tuple[TopicPartition, int, list[ActiveProducer] | ClusterError]]:
        for topic in answer.topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    error = refusal(one.error_code, one.error_message, str(place))
                    yield place, one.error_code, error
                else:
                    yield place, 0, [_producer(place, each) for each in one.active_producers]

    found: dict[TopicPartition, list[ActiveProducer] | ClusterError] = {}
    for start in range(0, len(partitions), PARTITIONS_A_REQUEST):
        some = partitions[start : start + PARTITIONS_A_REQUEST]
        if broker_id is None:
            found |= await client.ask_leaders(some, request, DescribeProducersResponse, parts)
        else:
            answer = await client.ask_node(broker_id, request(some), DescribeProducersResponse)
            found |= {place: value for place, _, value in parts(answer)}
    return found


def _producer(place: TopicPartition, one: Any) -> ActiveProducer:
    return ActiveProducer(
        place,
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
        one.last_timestamp,
        one.coordinator_epoch,
        one.current_txn_start_offset,
    )


# -- hanging transactions ----------------------------------------------------------------------------------


def old_transactions(
    producers: Iterable[ActiveProducer], now_ms: int, max_timeout_ms: int
) -> list[ActiveProducer]:
    """The producers that have written nothing to their open transaction for longer than one may take."""
    return [
        one for one in producers if one.in_transaction and now_ms - one.last_timestamp_ms > max_timeout_ms
    ]


def hanging_transactions(
    candidates: Iterable[ActiveProducer],
    ids_by_producer: Mapping[int, str],
    described: Mapping[str, Transaction | ClusterError],
) -> list[ActiveProducer]:
    """The candidates whose coordinator will write no marker into their partition.

    It does not know the producer, or the partition is not one of its transaction.
    """
    found = []
    for one in candidates:
        transactional_id = ids_by_producer.get(one.producer_id)
        transaction = None if transactional_id is None else described.get(transactional_id)
        if not isinstance(transaction, Transaction) or one.partition not in transaction.partitions:
            found.append(one)
    return sorted(found, key=lambda one: (one.partition, one.producer_id))


async def find_hanging(
    client: ClusterRequests,
    partitions: Sequence[TopicPartition],
    now_ms: int,
    max_timeout_ms: int,
    broker_id: int | None = None,
) -> tuple[list[ActiveProducer], list[ClusterError]]:
    """The hanging transactions of partitions, and the errors of partitions that could not be looked at.

    max_timeout_ms: the longest that a transaction may take (transaction.max.timeout.ms). Raises ClusterError.
    """
    producers: list[ActiveProducer] = []
    errors = []
    for found in (await describe_producers(client, partitions, broker_id)).values():
        if isinstance(found, ClusterError):
            errors.append(found)
        else:
            producers += found
    candidates = old_transactions(producers, now_ms, max_timeout_ms)
    if not candidates:
        return [], errors
    listed = await list_transactions(client, producer_ids=sorted({one.producer_id for one in candidates}))
    ids = {one.producer_id: one.transactional_id for one in listed}
    described = await describe_transactions(client, ids.values())
    for transaction in described.values():
        if isinstance(transaction, ClusterError) and transaction.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            # a coordinator that does not answer may know the transaction well
            raise transaction
    return hanging_transactions(candidates, ids, described), errors


# -- ending ------------------------------------------------------------------------------------------------


async def abort_in_partition(
    client: ClusterRequests,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Write the marker that aborts a producer's transaction into one partition, past its coordinator.

    Raises ClusterError.
    """

    def request(_: Sequence[TopicPartition]) -> WriteTxnMarkersRequest:
        topic = WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            # a producer whose transactions never ended has none yet
            coordinator_epoch=max(0, coordinator_epoch),
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def parts(answer: WriteTxnMarkersResponse) -> Iterable[tuple[TopicPartition, int, int | ClusterError]]:
        for marker in answer.markers:
            for topic in marker.topics:
                for one in topic.partitions:
                    place = TopicPartition(topic.name, one.partition_index)
                    code = one.error_code
                    yield place, code, refusal(code, None, str(place)) if code else 0

    outcome = (await client.ask_leaders([partition], request, WriteTxnMarkersResponse, parts))[partition]
    if isinstance(outcome, ClusterError):
        raise outcome


async def force_terminate(client: ClusterRequests, transactional_id: str) -> tuple[int, int]:
    """Abort the transaction of a transactional id, prepared ones too, and fence its producer.

    The new producer id and epoch. Raises ClusterError.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + client.timeout_seconds
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=FENCING_TIMEOUT_MS
    )
    while True:
        answer = await client.ask_coordinator(
            CoordinatorType.TRANSACTION, transactional_id, request, InitProducerIdResponse
        )
        # the first request begins the abort, and is told to come again until all markers are written
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() >= deadline:
            require_success(answer.error_code, None, transactional_id)
            return answer.producer_id, answer.producer_epoch
        await asyncio.sleep(PAUSE_SECONDS)
