"""Brings home the records that an older ottla left in the wrong partition, while the right one is loaded.

A shard is served only when nothing can be missing from it: its partition has one counterpart
(core/coordination/partitioning.py) where an older ottla may have kept some of its names. A shard that leads
it on this broker has read it anyway and knows whether there are any; elsewhere it is read through its leader,
by the same Fetch that serves consumers, so that it may be Apache Kafka's too. Before that its leader is asked
where it looks for such a name: it must send to this broker, else it may still write there. What to copy and
what to delete is decided in core/strays/homing.py. Nothing is deleted where one of Apache Kafka's brokers
leads: its coordinator takes offence at records that are not its own. They stay, are older than the records
here, and are remembered as looked at. A step that fails is tried again from the beginning, which does no
harm; the shard waits meanwhile, and a log line gives the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.peers.broker_requests import address_of_broker
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.peers.remote_log import read_remote_log
from ottla.core.coordination.partitioning import is_stray
from ottla.core.decisions.topic_names import ADMIN_CLIENT_ID
from ottla.core.strays.homing import Homing, decide, unsettled
from ottla.core.strays.naming import name_of, stray_test
from ottla.core.strays.units import LogUnits, Unit
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError, RequestTimedOut
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_shard import ShardFamily, ShardRunner
    from ottla.broker.coordinators.node import HomingNode

log = logging.getLogger("ottla.broker.coordinators")

PURPOSE: Final = "strays"
FIRST_RETRY_SECONDS: Final = 0.05
LAST_RETRY_SECONDS: Final = 1.0
TELL_SECONDS: Final = 5.0
REQUEST_TIMEOUT_MS: Final = 30_000
ACKS_ALL: Final = -1
LAST_PRODUCE_VERSION_WITH_NAMES: Final = 12
MAX_RECORDS_A_BATCH: Final = 500
MAX_BYTES_A_BATCH: Final = 256 << 10
KEY_TYPES: Final = {Coordinator.GROUP: 0, Coordinator.TRANSACTION: 1, Coordinator.SHARE: 2}
"""The kinds of keys of FindCoordinator."""
PROBE_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

Units = dict[Hashable, Unit]


class _NotYet(Exception):
    """Another event has to come first; the message names it."""


class Shards(Protocol):
    """All shards of one coordinator on this broker."""

    def leader_of(self, partition: int) -> int | None:
        """The node id of the broker whose shard it is; None without one, or without such a partition."""
        ...

    def runner(self, partition: int) -> ShardRunner | None:
        """The shard of a partition; None if this broker does not lead it."""
        ...


async def bring_home(
    node: HomingNode,
    family: ShardFamily,
    routing: Shards,
    runner: ShardRunner,
    away: int,
    count: int,
) -> None:
    """Append the records that the runner's partition lacks, and show them to its shard.

    `away` is its counterpart of `count` partitions. Ends also when the runner resigns.
    """
    homing = _Homing(node, family, routing, runner, away, count)
    pause, tell = FIRST_RETRY_SECONDS, node.loop.time() + TELL_SECONDS
    while not runner.resigned:
        try:
            await homing.attempt()
            return
        except (_NotYet, KafkaError, ProtocolError, PeerUnreachable, OSError) as problem:
            if node.loop.time() >= tell:
                tell = node.loop.time() + TELL_SECONDS
                log.warning(
                    "%s are not served yet partition=%d: they wait for what an older version may have left "
                    "in partition %d: %s",
                    family.name,
                    runner.partition,
                    away,
                    problem,
                )
        await asyncio.sleep(pause)
        pause = min(2 * pause, LAST_RETRY_SECONDS)


class _Homing:
    """One partition's strays on their way home."""

    def __init__(
        self,
        node: HomingNode,
        family: ShardFamily,
        routing: Shards,
        runner: ShardRunner,
        away: int,
        count: int,
    ) -> None:
        self._node = node
        self._family = family
        self._routing = routing
        self._runner = runner
        self._home = runner.partition
        self._away = away
        self._count = count
        self._is_stray = stray_test(family.coordinator, away, count)

    async def attempt(self) -> None:
        """Do all of it. Raises an exception that gives the reason why it can't be done yet."""
        topic = self._family.topic
        leader = self._routing.leader_of(self._away)
        if leader is None:
            if self._node.coordinator_partitions.is_clean(topic, self._away, self._count):
                return
            raise _NotYet("it has no leader")
        if leader == self._node.node_id:
            other = self._routing.runner(self._away)
            if other is None:
                raise _NotYet("it is being elected")
            await other.replayed.wait()
            if other.resigned:
                raise _NotYet("its leader changes")
            if other.strays:
                await self._move(await self._read_local(), None)
                other.strays.clear()
            return
        if self._node.coordinator_partitions.is_clean(topic, self._away, self._count):
            return
        await self._check_that_it_sends_here(leader)
        await self._move(await self._read_remote(leader), leader)
        try:
            await self._node.coordinator_partitions.note_clean(topic, self._away, self._count)
        except OSError as problem:  # costs another look, no more
            log.warning("not remembered that partition %d of %s is clean: %s", self._away, topic, problem)

    async def _move(self, strays: Units, leader: int | None) -> None:
        """Copy, wait for the commit, delete; in this order, so that a kill in between loses nothing."""
        if open_names := unsettled(strays):
            raise _NotYet(f"a transaction has to end first: {', '.join(sorted(open_names)[:3])}")
        names = {unit.name for unit in strays.values() if unit.records}
        if not names:
            return
        homing = decide(strays, await self._read_home(names), self._runner.leader_epoch)
        for records in _batches(homing):
            self._check_still_here()
            await self._copy(records)
        if leader is None or self._node.coordinator_partitions.is_known_by(leader):
            for start in range(0, len(homing.tombstones), MAX_RECORDS_A_BATCH):
                await self._delete(homing.tombstones[start : start + MAX_RECORDS_A_BATCH], leader)
        log.warning(  # once in a cluster's life: easy to find in the log
            "%s moved from the partition where an older version kept them topic=%s from=%d to=%d names=%d "
            "copied=%d kept_because_newer=%d",
            self._family.name,
            self._family.topic,
            self._away,
            self._home,
            homing.names,
            len(homing.copies),
            homing.superseded,
        )

    async def _copy(self, records: Sequence[NewRecord]) -> None:
        """Append at home, and show it to the shard once it is committed."""
        try:
            await self._node.internal_appends.append_records(
                self._family.topic, self._home, records, codec=self._family.codec
            )
        except RequestTimedOut:
            # It is in the log: the next attempt may find it committed there, and won't copy it again.
            self._runner.replay(records)
            raise
        self._check_still_here()
        self._runner.replay(records)

    def _check_still_here(self) -> None:
        if self._runner.resigned:
            raise _NotYet("another broker leads the partition")

    # -- reading ------------------------------------------------------------------------------------

    async def _read_home(self, names: set[str]) -> Units:
        coordinator = self._family.coordinator
        found = LogUnits(coordinator, lambda key: name_of(coordinator, key) in names)
        for header, records in self._node.internal_appends.iterate_batches(self._family.topic, self._home):
            found.take_batch(header, records)
            await asyncio.sleep(0)
            self._check_still_here()
        return found.units()

    async def _read_local(self) -> Units:
        found = LogUnits(self._family.coordinator, self._is_stray)
        for header, records in self._node.internal_appends.iterate_batches(self._family.topic, self._away):
            found.take_batch(header, records)
            await asyncio.sleep(0)
            self._check_still_here()
        return found.units()

    async def _read_remote(self, leader: int) -> Units:
        found = LogUnits(self._family.coordinator, self._is_stray)
        async for header, records in read_remote_log(
            self._node, PURPOSE, leader, self._family.topic, self._away
        ):
            found.take_batch(header, records)
            self._check_still_here()
        return found.units()

    # -- asking the other leader --------------------------------------------------------------------

    async def _check_that_it_sends_here(self, leader: int) -> None:
        """The leader of the counterpart must know where its strays live, or it goes on writing them."""
        key = _probe(self._family.coordinator, self._away, self._count)
        request = FindCoordinatorRequest(key_type=KEY_TYPES[self._family.coordinator], coordinator_keys=[key])
        answer = await self._ask(leader, request)
        assert isinstance(answer, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else None
        if found is None or found.error_code or found.node_id != self._node.node_id:
            raise _NotYet(f"broker {leader} does not look for them here")

    async def _delete(self, keys: Sequence[bytes], leader: int | None) -> None:
        now_ms = self._node.now_ms()
        tombstones = [NewRecord(key, None, now_ms) for key in keys]
        topic = self._family.topic
        if leader is None:
            await self._node.internal_appends.append_records(topic, self._away, tombstones)
            return
        data = PartitionProduceData(index=self._away, records=encode_batch(tombstones))
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await self._ask(leader, request, LAST_PRODUCE_VERSION_WITH_NAMES, ADMIN_CLIENT_ID)
        assert isinstance(answer, ProduceResponse)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error:
            raise _NotYet(f"broker {leader} does not take tombstones: {error.name}")

    async def _ask(
        self, leader: int, request: Message, version: int | None = None, client_id: str | None = None
    ) -> Message:
        address = address_of_broker(self._node, leader)
        if address is None:
            raise PeerUnreachable(f"broker {leader} is not there")
        return await self._node.peers.ask(
            PURPOSE if client_id is None else f"{PURPOSE}-{client_id}",
            address,
            request,
            timeout_ms=REQUEST_TIMEOUT_MS,
            version=version,
            client_id=client_id,
        )


def _batches(homing: Homing) -> Iterator[list[NewRecord]]:
    """The copies in batches of some size; a unit is never in two, so that a kill leaves none of it or all."""
    batch: list[NewRecord] = []
    size = 0
    for unit in homing.copies:
        unit_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in unit.records)
        if batch and (
            size + unit_bytes > MAX_BYTES_A_BATCH or len(batch) + len(unit.records) > MAX_RECORDS_A_BATCH
        ):
            yield batch
            batch, size = [], 0
        batch.extend(unit.records)
        size += unit_bytes
    if batch:
        yield batch


def _probe(coordinator: Coordinator, away: int, count: int) -> str:
    """A name that an older ottla looks for in `away`; one in `count` is."""
    number = 0
    while True:
        name = f"probe-{number}"
        key = f"{name}:{PROBE_TOPIC_ID}:0" if coordinator is Coordinator.SHARE else name
        if is_stray(key, away, count):
            return key
        number += 1
