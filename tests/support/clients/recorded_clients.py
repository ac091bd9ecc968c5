"""Producers and consumers with raw requests, which record their actions and answers; requests may come late.

A client sends a request once, loses it on the way, or has it delivered again at any later time over another
connection, as networks do. Answers go into the history; the outcome of a request without one stays unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch, iterate_headers
from ottla.protocol.schema import Message
from ottla.storage.log import Log
from support.clients.histories import History, LogEntry, Outcome, Partition, Poll, Send, Transaction
from support.clients.raw_transactions import fetch, produce_request, write_marker
from support.nodes.in_process import RawClient, connect, create_topic
from support.storage.compaction import clean
from support.storage.transactions import committed_records

PLAIN, COMPACTED = "plain", "compacted"
PARTITIONS: tuple[Partition, ...] = ((PLAIN, 0), (PLAIN, 1), (COMPACTED, 0))
TRANSACTION_STATE = ("__transaction_state", 0)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.cleaner.enable": "false",
}
TRANSIENT = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
PATIENCE_S = 10.0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
V1_PRODUCE, V2_PRODUCE = 11, 12
V1_END, V2_END = 4, 5


@dataclass(slots=True)
class Late:
    """A request that may be delivered (again) at any time."""

    api: ApiKey
    version: int
    request: Message
    send: Send | None = None


@dataclass(slots=True)
class Producer:
    """One transactional id as one of its instances believes it to be; `name` None: idempotent only."""

    name: str | None
    is_v2: bool
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[Partition, int] = field(default_factory=dict)
    transaction: Transaction | None = None
    added: set[Partition] = field(default_factory=set)
    must_abort: bool = False
    must_begin_anew: bool = True


class World:
    """A broker in this process with its clients and their history."""

    def __init__(self, root: Path) -> None:
        self.history = History()
        self.late: list[Late] = []
        self._root = root
        self._lives = itertools.count()
        self._values = itertools.count()
        self._directory = root / "life-0"
        self.broker: Broker
        self._client: RawClient
        self._cleaned: dict[Partition, int] = {}

    # --- the broker -----------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._start(self._root / f"life-{next(self._lives)}")
        await create_topic(self.broker, PLAIN, partitions=2)
        await create_topic(self.broker, COMPACTED, configs={"cleanup.policy": "compact"})
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["any"])
        await self._until(
            ApiKey.FIND_COORDINATOR, 4, request, lambda answer: answer.coordinators[0].error_code
        )

    async def _start(self, directory: Path) -> None:
        self._directory = directory
        values = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", **SETTINGS}
        self.broker = await Broker.start(BrokerConfig.from_mapping(values), on_failure=lambda: None)
        self._client = await connect(self.broker)

    async def stop(self) -> None:
        self._client.close()
        assert not self.broker.failed, "a background task of the broker died"
        await self.broker.stop()

    async def restart(self) -> None:
        """Stop cleanly and start."""
        await self.stop()
        await self._start(self._directory)

    async def kill(self) -> None:
        """End the broker without a stop; the next one finds the files as they are right now."""
        following = self._root / f"life-{next(self._lives)}"
        shutil.copytree(self._directory, following)
        await self.stop()
        await self._start(following)

    def log(self, partition: Partition) -> Log:
        return self.broker.partitions.partition(*partition).log

    def roll(self, partition: Partition) -> None:
        """Close the active segment."""
        self.log(partition).roll(self.broker.now_ms())

    def compact(self, partition: Partition) -> None:
        """Clean all of a log that may be cleaned; markers and tombstones as if their time had come."""
        log = self.log(partition)
        later = self.broker.now_ms() + 2 * log.config.delete_retention_ms
        log.roll(self.broker.now_ms())
        if len(log.segments) > 1:
            checkpoint = self._cleaned.get(partition)
            self._cleaned[partition] = clean(log, checkpoint, now_ms=later)[0]
            log.remove_deleted_files(later + log.config.file_delete_delay_ms)

    # --- requests -------------------------------------------------------------------------------------

    async def _until(
        self, api: ApiKey, version: int, request: Message, code_of: Callable[[Any], int]
    ) -> tuple[ErrorCode, Any]:
        """Ask until the answer is not transient."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self._client.call(api, version, request)
                code = ErrorCode(code_of(answer))
                if code not in TRANSIENT:
                    return code, answer
                await asyncio.sleep(0.002)

    async def deliver(self, late: Late) -> None:
        """A request comes late, or once more, over another connection."""
        client = await connect(self.broker)
        answer: Any = await client.call(late.api, late.version, late.request)
        client.close()
        if late.send is not None:
            result = answer.responses[0].partition_responses[0]
            if result.error_code == 0:
                self.history.acknowledged(late.send, result.base_offset)

    async def deliver_marker(self, transaction: Transaction, partition: Partition) -> None:
        """The marker of a transaction of v2 that has ended comes once more."""
        state = self.log(partition).producers.get(transaction.producer_id)
        await write_marker(
            self._client,
            committed=transaction.outcome is Outcome.DONE,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch + 1,
            coordinator_epoch=0 if state is None else max(0, state.coordinator_epoch),
            transaction_version=2,
            topic=partition[0],
            partition=partition[1],
        )

    # --- producers ------------------------------------------------------------------------------------

    async def begin_anew(self, producer: Producer) -> None:
        """InitProducerId: an open transaction is aborted, unless its end was under way."""
        request = InitProducerIdRequest(transactional_id=producer.name, transaction_timeout_ms=60_000)
        code, answer = await self._until(ApiKey.INIT_PRODUCER_ID, 5, request, lambda each: each.error_code)
        assert code == ErrorCode.NONE, code
        if producer.transaction is not None and not producer.must_begin_anew:
            producer.transaction.outcome = Outcome.FAILED
        producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
        producer.transaction = None
        producer.must_abort = producer.must_begin_anew = False
        producer.sequences.clear()
        producer.added.clear()

    def _begin(self, producer: Producer) -> Transaction | None:
        if producer.name is None:
            return None
        if producer.transaction is None:
            producer.transaction = self.history.begin(
                producer.name, producer.producer_id, producer.epoch, is_v2=producer.is_v2
            )
            producer.added.clear()
        return producer.transaction

    async def send(self, producer: Producer, partition: Partition, key: str, *, lost: bool) -> None:
        """Produce one record. `lost`: it is on its way, and the client gives its transaction up."""
        transaction = self._begin(producer)
        if transaction is not None and not producer.is_v2 and not await self._add(producer, partition):
            return
        send = self.history.send(f"{producer.name}.{next(self._values)}", partition, transaction, key)
        sequence = producer.sequences.get(partition, 0)
        request = self._produce_request(producer, send, sequence)
        version = V2_PRODUCE if producer.is_v2 else V1_PRODUCE
        late = Late(ApiKey.PRODUCE, version, request, send)
        if lost and transaction is not None:
            self.late.append(late)
            producer.must_abort = True
            return
        code, answer = await self._until(
            ApiKey.PRODUCE, version, request, lambda each: each.responses[0].partition_responses[0].error_code
        )
        if code == ErrorCode.NONE:
            self.late.append(late)
            producer.sequences[partition] = sequence + 1
            self.history.acknowledged(send, answer.responses[0].partition_responses[0].base_offset)
        else:
            send.outcome = Outcome.FAILED
            producer.must_abort = True

    @staticmethod
    def _produce_request(producer: Producer, send: Send, sequence: int) -> ProduceRequest:
        key = None if send.key is None else send.key.encode()
        batch = encode_batch(
            [NewRecord(key, send.value.encode(), Broker.now_ms())],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=producer.name is not None,
        )
        topic, index = send.partition
        return produce_request({index: batch}, transactional_id=producer.name, topic=topic)

    async def _add(self, producer: Producer, partition: Partition) -> bool:
        """AddPartitionsToTxn of a producer of transactions v1; whether the partition is in."""
        if partition in producer.added:
            return True
        topic, index = partition
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        code, _ = await self._until(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            request,
            lambda each: each.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
        if code == ErrorCode.NONE:
            producer.added.add(partition)
            self.late.append(Late(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request))
        else:
            producer.must_abort = True
        return code == ErrorCode.NONE

    async def end(self, producer: Producer, *, commit: bool, lost: bool) -> None:
        """EndTxn. `lost`: it is on its way, and the client begins anew without knowing the end."""
        transaction = producer.transaction
        if transaction is None:
            return
        committed = commit and not producer.must_abort
        version = V2_END if producer.is_v2 else V1_END
        request = EndTxnRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        late = Late(ApiKey.END_TXN, version, request)
        if lost:
            self.late.append(late)
            producer.must_begin_anew = True
            return
        code, answer = await self._until(ApiKey.END_TXN, version, request, lambda each: each.error_code)
        if code == ErrorCode.NONE:
            transaction.outcome = Outcome.DONE if committed else Outcome.FAILED
            producer.transaction = None
            producer.must_abort = False
            if producer.is_v2:
                # a second EndTxn of v1 would end the next transaction: why there is a v2
                self.late.append(late)
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
                producer.sequences.clear()
        else:
            # fenced, or no transaction was open: its records are aborted already, or will be at a new begin
            transaction.outcome = Outcome.FAILED
            producer.must_abort = True
            producer.must_begin_anew = True

    # --- consumers ------------------------------------------------------------------------------------

    async def read(
        self, partition: Partition, *, committed_only: bool, inside: Transaction | None = None
    ) -> Poll:
        """Read all of a partition, from its start to as far as the isolation level goes."""
        topic, index = partition
        isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        records: list[tuple[int, str]] = []
        offset = 0
        while True:
            answer = await fetch(self._client, offset, isolation=isolation, topic=topic, partition=index)
            assert answer.error_code == 0, answer
            if offset == 0:
                self.history.saw_stable(partition, answer.last_stable_offset)
            if not answer.records:
                break
            found = committed_records(answer.records, answer.aborted_transactions or (), offset)
            records += [(each.offset, (each.value or b"").decode()) for each in found]
            *_, (_, last) = iterate_headers(answer.records)
            offset = last.next_offset
        self.history.poll(partition, records, committed_only=committed_only, inside=inside)
        return self.history.polls[-1]

    def entries(self) -> list[LogEntry]:
        """The contents of the logs: every record and every marker."""
        return [
            LogEntry(
                partition,
                record.offset,
                header.producer_id,
                header.producer_epoch,
                header.is_transactional,
                bool((record.key or b"")[3]) if header.is_control else None,
                None if header.is_control else (record.value or b"").decode(),
            )
            for partition in PARTITIONS
            for header, batch in self.log(partition).iterate_batches(0)
            for record in decode_records(batch)
        ]

    async def settle(self) -> dict[Partition, int]:
        """Wait until every partition is stable up to its end, or time is up. The ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                for partition in PARTITIONS:
                    held = self.broker.partitions.partition(*partition)
                    while held.last_stable_offset < held.log.log_end_offset:  # noqa: ASYNC110
                        await asyncio.sleep(0.002)
        return {partition: self.log(partition).log_end_offset for partition in PARTITIONS}
