"""Fetches mirrored partitions from one broker of the source, and appends what comes, verbatim.

A fetcher is one task and one connection. It asks as a consumer (replica -1, read uncommitted) outside of a
session, and names the epoch of each log's last record, so the source's leader tells where logs diverge. A
fetch waits at the source for the first byte. Batches are checked (CRC, offsets) before they are appended; a
partition with anything else in its answer leaves the fetcher until that is settled (mirror_effects.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.links.mirror_effects import advance_log_start
from ottla.broker.links.mirrored import Key, Mirrored
from ottla.broker.links.source import CONSUMER, Source, SourceUnusable
from ottla.broker.peers.peers import PeerAddress
from ottla.core.links.mirror import (
    AdvanceLogStart,
    AppendMirrored,
    Effect,
    RaiseEpoch,
    RetryLater,
    SourceAnswer,
)
from ottla.core.replica.reading import EpochEnd
from ottla.protocol.byte_budget import Budget
from ottla.protocol.errors import CorruptBatch, ErrorCode
from ottla.protocol.fetched_batches import check_fetched
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.record_batch import LOG_OVERHEAD_BYTES
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

log = logging.getLogger("ottla.broker.links")

NO_SESSION_EPOCH: Final = -1
ANY_EPOCH: Final = 2**31 - 1
WAIT_MS: Final = 500
TIMEOUT_MS: Final = 30_000
PARTITION_MAX_BYTES: Final = 4 << 20
RESPONSE_MAX_BYTES: Final = 16 << 20
BUDGET_PAUSE_SECONDS: Final = 0.5
"""How long the partitions are not looked at while what was copied is paid for."""
SLICE_SECONDS: Final = 0.01
"""How long one answer may keep the event loop to itself."""

#: A partition's effects that are not the fetcher's; it has left the fetcher.
OnEffects = Callable[[Mirrored, "list[Effect]"], None]


class MirrorFetcher:
    """The partitions that one broker of the source leads, as far as this broker mirrors them."""

    def __init__(
        self,
        node: LinksNode,
        source: Source,
        leader_id: int,
        address: PeerAddress,
        on_effects: OnEffects,
        budget: Budget,
    ) -> None:
        """budget: what this broker copies of the link, which its fetchers share."""
        self._budget = budget
        self._node = node
        self._source = source
        self._leader_id = leader_id
        self.address = address
        self._on_effects = on_effects
        self._active: dict[Key, tuple[Mirrored, int]] = {}
        self._news = asyncio.Event()

    def add(self, mirrored: Mirrored, source_epoch: int) -> None:
        """Fetch one more partition; source_epoch: the leader epoch of the source's leader."""
        self._active[mirrored.key] = (mirrored, source_epoch)
        self._news.set()

    def remove(self, key: Key) -> None:
        """Fetch one less."""
        self._active.pop(key, None)

    async def run(self) -> None:
        """Fetch for ever; partitions are handed back when the source's broker does not answer."""
        while True:
            for key, (mirrored, _) in list(self._active.items()):
                if not mirrored.is_current:
                    del self._active[key]
            if not self._active:
                self._news.clear()
                await self._news.wait()
                continue
            if wait_seconds := self._budget.wait_seconds(self._node.loop.time()):
                await asyncio.sleep(min(wait_seconds, BUDGET_PAUSE_SECONDS))
                continue
            request = self._request()
            try:
                answer = await self._source.ask(
                    self.address,
                    request,
                    FetchResponse,
                    purpose=f"fetch-{self._leader_id}",
                    timeout_ms=TIMEOUT_MS,
                )
                if answer.error_code != ErrorCode.NONE:
                    raise SourceUnusable(ErrorCode(answer.error_code).name)
            except SourceUnusable as problem:
                log.info("source not fetched from broker=%d reason=%s", self._leader_id, problem)
                self._give_back()
                continue
            await self._take(answer)

    def _give_back(self) -> None:
        """All partitions look for their leaders anew."""
        active, self._active = self._active, {}
        for mirrored, _ in active.values():
            self._on_effects(mirrored, [RetryLater(ErrorCode.NETWORK_EXCEPTION)])

    def _request(self) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for (name, index), (mirrored, source_epoch) in self._active.items():
            position = mirrored.sent = mirrored.mirror.position()
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(
                    topic=name, topic_id=UUID(mirrored.source_id), partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=source_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    partition_max_bytes=self._budget.most_bytes(PARTITION_MAX_BYTES),
                )
            )
        most_bytes = self._budget.most_bytes(RESPONSE_MAX_BYTES)
        # The first ones of a full answer must not be the same for ever.
        if len(self._active) > 1:
            first = next(iter(self._active))
            self._active[first] = self._active.pop(first)
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=most_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=NO_SESSION_EPOCH,
            topics=list(topics.values()),
        )

    # -- answers ------------------------------------------------------------------------------------

    async def _take(self, answer: FetchResponse) -> None:
        loop = self._node.loop
        names = {mirrored.source_id: name for (name, _), (mirrored, _) in self._active.items()}
        slice_end = loop.time() + SLICE_SECONDS
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id.hex, "")
            for data in topic.partitions:
                found = self._active.get((name, data.partition_index))
                if found is None or found[0].sent is None or not found[0].is_current:
                    continue
                self._budget.spend(len(data.records or b""), loop.time())
                self._take_partition(found[0], data)
                if loop.time() >= slice_end:
                    await asyncio.sleep(0)
                    slice_end = loop.time() + SLICE_SECONDS

    def _take_partition(self, mirrored: Mirrored, data: PartitionData) -> None:
        asked = mirrored.sent
        assert asked is not None
        diverging = data.diverging_epoch
        has_diverged = diverging.epoch >= 0 or diverging.end_offset >= 0
        answer = SourceAnswer(
            ErrorCode(data.error_code) if data.error_code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR,
            data.high_watermark,
            data.log_start_offset,
            EpochEnd(diverging.epoch, diverging.end_offset) if has_diverged else None,
            b"" if data.records is None else data.records,
        )
        effects = list(mirrored.mirror.on_answer(asked, answer))
        left: list[Effect] = []
        for place, effect in enumerate(effects):
            match effect:
                case AppendMirrored():
                    further = self._append(mirrored, effect)
                    if further is not None:
                        left = [further]
                        break
                case AdvanceLogStart(offset):
                    advance_log_start(mirrored, offset)
                case _:
                    left = effects[place:]
                    break
        if mirrored.mirror.lag == 0:
            mirrored.caught_up_at = self._node.loop.time()
        if left:
            self._active.pop(mirrored.key, None)
            self._on_effects(mirrored, left)
        else:
            mirrored.failures = 0

    def _append(self, mirrored: Mirrored, effect: AppendMirrored) -> Effect | None:
        """Check and append; the effect that has to come before the rest, or None."""
        partition = mirrored.partition
        stored = partition.log
        try:
            batches = check_fetched(effect.records, effect.fetch_offset, ANY_EPOCH)
            headers = batches.headers
            if not headers:
                raise CorruptBatch("not one whole batch")
            count = mirrored.mirror.appendable([each.partition_leader_epoch for each in headers])
            further = None if count == len(headers) else RaiseEpoch(headers[count].partition_leader_epoch)
            if not count:
                return further
            taken = headers[:count]
            data = batches.data[: sum(each.batch_length + LOG_OVERHEAD_BYTES for each in taken)]
            start, first = stored.log_start_offset, taken[0].base_offset
            if first < stored.log_end_offset:
                if start != stored.log_end_offset:
                    raise CorruptBatch(f"a batch begins at {first}, before the log's end")
                # The source's log begins within this batch (DeleteRecords), and this one is empty.
                stored.truncate_fully(first, now_ms=self._node.now_ms())
            before = stored.log_end_offset
            result = partition.append_mirrored(data, taken, self._node.now_ms())
            if first < start:
                stored.advance_log_start_offset(start)
        except (CorruptBatch, OSError, StorageError, ValueError) as problem:
            log.error(
                "records of the source not appended topic=%s partition=%d offset=%d: %s",
                partition.topic, partition.index, effect.fetch_offset, problem,
            )  # fmt: skip
            return RetryLater(ErrorCode.CORRUPT_MESSAGE)
        if result.rolled or result.flush_due:
            self._node.replication.logs.flush_soon()
        mirrored.records_in += stored.log_end_offset - before
        mirrored.bytes_in += len(data)
        return further


_CODES: Final = frozenset(int(each) for each in ErrorCode)
