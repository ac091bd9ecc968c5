"""Simulated clients: producers, consumers, an administrator. Their operations and results go into a history.

A producer repeats a batch until it is answered, or gives up: then it does not know the outcome, and goes on
with a new producer id. A consumer continues at its offset, whichever broker leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch, iterate_headers
from ottla.protocol.schema import Message
from simulation.controller_node import Refused
from simulation.observer import Observer, Violation
from simulation.quorum_node import CONTROLLER_SERVICE
from simulation.wire import (
    BROKER_SERVICE,
    ConsumeAnswer,
    Consumed,
    MetadataAnswer,
    MetadataAsked,
    PartitionLocation,
    ProduceAnswer,
    Produced,
    ProducerIdAnswer,
    ProducerIdAsked,
)
from simulation.world.host import Host
from simulation.world.network import Network
from simulation.world.scheduler import Scheduler
from support.clients.histories import History, Outcome, Send

NOT_APPENDED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""The errors after which a batch is sent again."""


class Client:
    """A client of the cluster's brokers."""

    def __init__(
        self, scheduler: Scheduler, network: Network, name: str, node_ids: list[int], history: History
    ) -> None:
        self.host = Host(scheduler, name)
        self.network = network
        self.history = history
        self.topic_id: UUID | None = None
        self.partitions: dict[int, PartitionLocation] = {}
        self._random = scheduler.random
        self._brokers = list(node_ids)
        self._known_brokers = list(node_ids)

    async def refresh(self, topic: str) -> None:
        """Ask a broker for the partitions' leaders."""
        broker = self._random.choice(self._brokers)
        answer = await self.network.ask(self.host, f"n{broker}", BROKER_SERVICE, MetadataAsked(topic), 500)
        if isinstance(answer, MetadataAnswer) and answer.topic_id is not None:
            self.topic_id = answer.topic_id
            for location in answer.partitions:
                known = self.partitions.get(location.index)
                if known is None or known.leader_epoch <= location.leader_epoch:
                    self.partitions[location.index] = location
            self._brokers = list(answer.brokers) or self._known_brokers
        else:
            self._brokers = self._known_brokers

    async def leader_of(self, topic: str, index: int) -> PartitionLocation:
        """The partition's leader, as soon as one is known."""
        while True:
            location = self.partitions.get(index)
            if location is not None and location.leader >= 0:
                return location
            await self.host.sleep(100)
            await self.refresh(topic)


class Producer(Client):
    """Sends values to a topic's partitions. `acks` as in Kafka; `idempotent` or not."""

    acks = -1
    idempotent = True
    pause_ms = 60
    stopped = False
    finished = False
    sent = 0

    async def run(self, topic: str, partition_count: int) -> None:
        """Send until the producer is stopped."""
        await self.refresh(topic)
        producer_id = -1
        sequences: dict[int, int] = {}
        while not self.stopped:
            await self.host.sleep(self.pause_ms * (0.5 + self._random.random()))
            if self.idempotent and producer_id < 0:
                producer_id = await self._new_producer_id()
                sequences = {}
                continue
            index = self._random.randrange(partition_count)
            count = self._random.randint(1, 3)
            values = [f"{self.host.name}-{self.sent + each}" for each in range(count)]
            self.sent += count
            sends = [self.history.send(value, (topic, index), None) for value in values]
            sequence = sequences.get(index, 0)
            batch = encode_batch(
                [NewRecord(None, value.encode(), 1) for value in values],
                producer_id=producer_id if self.idempotent else -1,
                producer_epoch=0 if self.idempotent else -1,
                base_sequence=sequence if self.idempotent else -1,
            )
            if await self._deliver(topic, index, batch, sends):
                sequences[index] = sequence + count
            else:
                producer_id = -1
        self.finished = True

    async def _new_producer_id(self) -> int:
        broker = self._random.choice(self._brokers)
        answer = await self.network.ask(self.host, f"n{broker}", BROKER_SERVICE, ProducerIdAsked(), 1500)
        if isinstance(answer, ProducerIdAnswer) and answer.error is ErrorCode.NONE:
            return answer.producer_id
        await self.refresh("")
        return -1

    async def _deliver(self, topic: str, index: int, batch: bytes, sends: list[Send]) -> bool:
        for _ in range(1 if self.acks == 0 else 40):
            location = await self.leader_of(topic, index)
            assert self.topic_id is not None
            request = Produced((self.topic_id, index), batch, self.acks, 1500)
            asked = self.network.ask(self.host, f"n{location.leader}", BROKER_SERVICE, request, 1500)
            if self.acks == 0:
                return True
            answer = await asked
            if isinstance(answer, ProduceAnswer):
                if answer.error is ErrorCode.NONE:
                    self._acknowledged(sends, answer.base_offset)
                    return True
                if answer.error not in NOT_APPENDED:
                    if self.acks == -1:
                        raise Violation(f"{sends[0].value}: a producer is told {answer.error.name}")
                    return False
            await self.host.sleep(60)
            await self.refresh(topic)
        return False

    def _acknowledged(self, sends: list[Send], base_offset: int) -> None:
        if self.acks != -1:
            return  # the record may be lost, and its offset used again: there is no promise
        for position, send in enumerate(sends):
            self.history.acknowledged(send, base_offset + position)


class Consumer(Client):
    """Polls a topic's partitions, each from its own offset."""

    stopped = False

    async def run(self, topic: str, index: int) -> None:
        """Poll until the consumer is stopped."""
        offset = 0
        while not self.stopped:
            records = await self.poll(topic, index, offset)
            if records:
                self.history.poll((topic, index), records, committed_only=True, start=offset)
                offset = records[-1][0] + 1
            await self.host.sleep(50 + 100 * self._random.random())

    async def poll(self, topic: str, index: int, offset: int) -> list[tuple[int, str]]:
        """Records from `offset` on, if any came."""
        location = await self.leader_of(topic, index)
        assert self.topic_id is not None
        request = Consumed((self.topic_id, index), offset, location.leader_epoch, 300)
        answer = await self.network.ask(self.host, f"n{location.leader}", BROKER_SERVICE, request, 800)
        if not isinstance(answer, ConsumeAnswer) or answer.error is not ErrorCode.NONE:
            if isinstance(answer, ConsumeAnswer) and answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation(f"{topic}-{index}: a consumer that read up to {offset} is out of range")
            await self.host.sleep(50)
            await self.refresh(topic)
            return []
        found: list[tuple[int, str]] = []
        for position, header in iterate_headers(answer.records):
            if header.base_offset > offset + len(found) and header.base_offset > offset:
                last = found[-1][0] + 1 if found else offset
                if header.base_offset > last:
                    raise Violation(f"{topic}-{index}: {last} to {header.base_offset} is missing in a poll")
            found += [
                (record.offset, (record.value or b"").decode())
                for record in decode_records(answer.records, position)
                if record.offset >= offset
            ]
        return found

    async def read_all(self, topic: str, index: int, end: int) -> list[tuple[int, str]]:
        """All records below `end`."""
        found: list[tuple[int, str]] = []
        offset = 0
        while offset < end:
            records = await self.poll(topic, index, offset)
            if records:
                found += records
                offset = records[-1][0] + 1
        return found


class Administrator(Client):
    """Sends requests to the node that is the active controller."""

    observer: Observer

    async def ask(
        self, request: Message, attempts: int = 20, retry: Callable[[Any], bool] = lambda answer: False
    ) -> Any:
        """The active controller's answer; None without an answer."""
        for attempt in range(attempts):
            node_id = self._known_brokers[attempt % len(self._known_brokers)]
            answer = await self.network.ask(self.host, f"n{node_id}", CONTROLLER_SERVICE, request, 2000)
            if answer is None or (isinstance(answer, Refused) and answer.code is ErrorCode.NOT_CONTROLLER):
                await self.host.sleep(50)
                continue
            if not retry(answer):
                return answer
            await self.host.sleep(200)
        return None


def acknowledged(history: History) -> int:
    """The number of acknowledged sends."""
    return sum(send.outcome is Outcome.DONE for send in history.sends.values())
