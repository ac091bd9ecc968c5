"""The question of a partition's leader to the transaction coordinator before a transactional append
(KIP-890).

A batch that would begin a transaction in its partition is appended only if the coordinator knows that the
partition belongs to the producer's transaction; otherwise a late batch could open one that never ends. Once a
transaction is open in the partition its further batches go in without asking.

Producers of transactions v1 (Produce below v12) have added the partition themselves, and the coordinator only
answers the question. For those of v2 the question adds it; while the coordinator still ends the producer's
last transaction it is asked again for a short while, which spares the client the repetition. A marker that is
appended between question and answer makes the answer void: `ProducerStates.check` sees to that.

The coordinator's errors are told to the producer as it can handle them: temporary ones as NOT_ENOUGH_REPLICAS
(old clients take most others as fatal), a newer producer as INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from ottla.broker.parts import Clock, Cluster, Loop
from ottla.core.links.topic_state import is_mirror
from ottla.core.settings import broker_settings
from ottla.protocol.errors import CorruptBatch, ErrorCode, KafkaError
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.record_batch import BATCH_HEADER_BYTES, TRANSACTIONAL, BatchHeader, parse_batch_header
from ottla.protocol.schema import Buffer
from ottla.storage.producer_states import Verification

if TYPE_CHECKING:
    from ottla.broker.replication.partitions import Partitions

TopicPartition = tuple[str, int]
#: A partition as the request names it: by topic name, or from v13 on by topic id.
NamedPartition = tuple[str | UUID, int]

FIRST_VERSION_WITH_GENERIC_ERRORS: Final = 11
FIRST_VERSION_OF_TRANSACTIONS_V2: Final = 12
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_LOW_ATTRIBUTES_POSITION: Final = 22
_TEMPORARY = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class VerificationNode(Cluster, Clock, Loop, Protocol):
    """The members of a node for the verification of transactional appends."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def transactions(self) -> TransactionGate:
        """The way to the transaction coordinators."""
        ...


class TransactionGate(Protocol):
    """The transaction coordinator, as the append path sees it."""

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Add the partitions to the producer's ongoing transaction, or only check that they belong to it.

        As AddPartitionsToTxn v4 and newer answers between brokers: an error code for every partition, the
        same one where the request fails as a whole (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE,
        TRANSACTION_ABORTABLE, …). Finds the coordinator by itself. Raises nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome for one partition: an error, or the verification that its batch may be appended with."""

    error: ErrorCode | None = None
    message: str | None = None
    verification: Verification | None = None


NOT_TRANSACTIONAL: Final[Mapping[NamedPartition, Verified]] = MappingProxyType({})


@dataclass(slots=True)
class TransactionalAppends:
    """The transactional batches of one produce request."""

    node: VerificationNode
    transactional_id: str
    producer_id: int
    producer_epoch: int
    version: int
    #: The partitions with transactional batches, as named and by topic name, with their first sequences.
    batches: list[tuple[NamedPartition, TopicPartition, int]]
    outcome: dict[NamedPartition, Verified] = field(default_factory=dict)
    #: The partitions that the coordinator has to be asked about.
    unverified: dict[TopicPartition, tuple[NamedPartition, Verification]] = field(default_factory=dict)

    @property
    def adds_partitions(self) -> bool:
        """Whether the producer leaves it to the broker to add partitions (transactions v2)."""
        return self.version >= FIRST_VERSION_OF_TRANSACTIONS_V2

    def begin(self) -> None:
        """Find out in which partitions the transaction is not open yet."""
        self.outcome.clear()
        self.unverified.clear()
        now_ms = self.node.now_ms()
        for named, (topic, index), sequence in self.batches:
            try:
                producers = self.node.partitions.partition(topic, index).log.producers
                verification = producers.begin_verification(
                    self.producer_id,
                    self.producer_epoch,
                    sequence,
                    now_ms=now_ms,
                    transactions_v2=self.adds_partitions,
                )
            except KafkaError as error:
                self.outcome[named] = Verified(error=error.code, message=error.message)
                continue
            if verification is not None:
                self.unverified[topic, index] = (named, verification)

    async def verify(self) -> Mapping[NamedPartition, Verified]:
        """Ask the coordinator. Returns its answer for every partition that was in question."""
        config = self.node.config
        patience_ms = min(
            config[broker_settings.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS],
            config[broker_settings.REQUEST_TIMEOUT_MS],
        )
        started = self.node.loop.time()
        while True:
            errors = await self._ask()
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors.values() or not self.adds_partitions:
                break
            if (self.node.loop.time() - started) * 1000 >= patience_ms:
                break
            await asyncio.sleep(config[broker_settings.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS] / 1000)
            self.begin()
            if not self.unverified:
                return self.outcome
        for partition, (named, verification) in self.unverified.items():
            error = errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.outcome[named] = (
                Verified(verification=verification) if error == ErrorCode.NONE else self._refusal(error)
            )
        return self.outcome

    async def _ask(self) -> Mapping[TopicPartition, ErrorCode]:
        gate: TransactionGate = self.node.transactions
        return await gate.add_partitions(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            tuple(self.unverified),
            verify_only=not self.adds_partitions,
        )

    def _refusal(self, error: ErrorCode) -> Verified:
        """A coordinator's error as this version of the producer understands it."""
        if error == ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error == ErrorCode.TRANSACTION_ABORTABLE and self.version < FIRST_VERSION_WITH_GENERIC_ERRORS:
            error = ErrorCode.INVALID_TXN_STATE
        if error == ErrorCode.INVALID_TXN_STATE:
            return Verified(error=error, message="the partition is not part of the producer's transaction")
        if error in _TEMPORARY or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not self.adds_partitions):
            message = f"the coordinator could not confirm the transaction: {error.name}"
            return Verified(error=ErrorCode.NOT_ENOUGH_REPLICAS, message=message)
        return Verified(error=error, message=error.message)


def has_transactional_batches(request: ProduceRequest) -> bool:
    """Whether the request has a batch of a transaction."""
    return any(
        _transactional_header(data.records) is not None
        for topic in request.topic_data
        for data in topic.partition_data
    )


def find_transactional_appends(
    node: VerificationNode, request: ProduceRequest, version: int, refused_topics: Collection[str] = ()
) -> TransactionalAppends | None:
    """The request's transactional batches, looked up in their logs; None if there is nothing to verify.

    Those of `refused_topics`, which will not be appended, are passed over. Without a transactional id, or
    with batches of more than one producer, all of the request is refused.
    """
    found: list[tuple[NamedPartition, TopicPartition, BatchHeader]] = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            header = _transactional_header(data.records)
            if header is None:
                continue
            if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
                known = node.image.topics_by_id.get(topic.topic_id)
                if known is None or is_mirror(node.image, known.name):
                    continue  # a mirror must never be part of a transaction: it could not take the marker
                if known.name not in refused_topics:
                    found.append(((topic.topic_id, data.index), (known.name, data.index), header))
            elif topic.name not in refused_topics and not is_mirror(node.image, topic.name):
                found.append(((topic.name, data.index), (topic.name, data.index), header))
    if not found:
        return None
    first = found[0][2]
    appends = TransactionalAppends(
        node,
        request.transactional_id or "",
        first.producer_id,
        first.producer_epoch,
        version,
        [(named, partition, header.base_sequence) for named, partition, header in found],
    )
    refusal: ErrorCode | None = None
    if request.transactional_id is None:
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED  # it must name its id
    elif len({(header.producer_id, header.producer_epoch) for _, _, header in found}) > 1:
        refusal = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if refusal is not None:
        refused = Verified(error=refusal)
        for topic in request.topic_data:
            name = topic.topic_id if version >= _FIRST_VERSION_WITH_TOPIC_IDS else topic.name
            appends.outcome.update(((name, data.index), refused) for data in topic.partition_data)
    elif appends.adds_partitions or node.config[broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE]:
        appends.begin()
    return appends


def _transactional_header(records: Buffer | None) -> BatchHeader | None:
    """The header of a transactional batch; None for others, and for bytes that the append will refuse."""
    if records is None or len(records) < BATCH_HEADER_BYTES:
        return None
    if not records[_LOW_ATTRIBUTES_POSITION] & TRANSACTIONAL:
        return None
    try:
        header = parse_batch_header(records)
    except CorruptBatch:
        return None
    return header if header.producer_id >= 0 else None
