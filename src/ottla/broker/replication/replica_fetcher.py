"""Copies partitions from their leaders: fetchers that ask other brokers for more, and append what comes.

Theory of operation. A fetcher is one task with one incremental fetch session (KIP-227) for the partitions
that it copies from one broker; num.replica.fetchers of them share a broker's partitions. A fetch waits at the
leader for replica.fetch.min.bytes or replica.fetch.wait.max.ms, so an append there comes here at once.
Answers are judged in core/replica/follower.py; their effects are performed here:

    append      batches are checked (CRC, offsets, epochs) and written verbatim; the next fetch says that they
                are here. Written is not synced: a follower that loses a tail shows that by its next fetch's
                offset, and the leader counts only that
    truncation  recovery point and high watermark checkpoints are lowered and synced first, for all partitions
                of an answer at once; a crash in between only means that more is recovered. Then the log is
                cut, newest segment first, then its epochs
    errors      a partition pauses, a little longer each time, up to replica.fetch.backoff.ms

A partition is a fetcher's only while its follower is the one that was handed over: answers for an earlier
leader epoch, or after this broker became the leader, are passed over.

Partitions that come while a fetch waits at the leader do not wait with it: the fetch is left alone, and a new
session begins on a second connection. After a broker died that is what lets its partitions go on at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ottla.broker.peers.broker_requests import address_of_broker
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.replication.partition import Partition
from ottla.core.replica.follower import (
    AdvanceLogStart,
    AppendFetched,
    AskOffsets,
    AwaitMetadata,
    Effect,
    FetchAnswer,
    FetchPosition,
    PartitionFollower,
    RetryLater,
    StartOver,
    Truncate,
)
from ottla.core.replica.reading import EpochEnd
from ottla.core.settings import broker_settings
from ottla.protocol.errors import CorruptBatch, ErrorCode
from ottla.protocol.fetched_batches import check_fetched
from ottla.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.storage.errors import StorageError
from ottla.storage.log import Log

if TYPE_CHECKING:
    from ottla.broker.replication.log_cleaner import LogCleaner
    from ottla.broker.replication.log_manager import LogManager
    from ottla.broker.replication.node import FetchersNode
    from ottla.broker.replication.replication_quota import ReplicationQuotas

log = logging.getLogger("ottla.broker.replication")

Key = tuple[UUID, int]

FIRST_PAUSE_SECONDS: Final = 0.02
THROTTLED_PAUSE_SECONDS: Final = 0.1
INTERRUPT_DELAY_SECONDS: Final = 0.005
"""How long partitions that come together are gathered before a waiting fetch is left for them."""
QUICK_RETRIES: Final = 5
"""How often a partition may end a fetch of others that waits, before it waits for them."""
SLICE_SECONDS: Final = 0.01
"""How long one answer may keep the event loop to itself."""
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class LeaderUnusable(Exception):
    """The leader refused a request as a whole."""


class _Followed:
    """One partition of a fetcher."""

    __slots__ = ("failures", "follower", "lags", "partition", "resume_at", "sent")

    def __init__(self, partition: Partition, follower: PartitionFollower) -> None:
        self.partition = partition
        self.follower = follower
        self.sent: FetchPosition | None = None
        """The position that the leader's session has of it."""
        self.lags = True
        self.failures = 0
        self.resume_at = 0.0

    @property
    def is_current(self) -> bool:
        return self.partition.follower is self.follower


class _Cut(NamedTuple):
    """A log to be shortened, as its end was when that was decided."""

    followed: _Followed
    log_end_offset: int
    effect: Truncate | StartOver


class ReplicaFetchers:
    """All fetchers of this broker. Used on the event loop only."""

    def __init__(
        self, node: FetchersNode, logs: LogManager, cleaner: LogCleaner, quotas: ReplicationQuotas
    ) -> None:
        self.node = node
        self.logs = logs
        self.cleaner = cleaner
        self.quotas = quotas
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}
        self._of_partition: dict[Key, _Fetcher] = {}
        self._fetchers_a_leader: int = node.config[broker_settings.NUM_REPLICA_FETCHERS]

    def follow(self, partition: Partition) -> None:
        """Copy the partition from its follower's leader from now on; stop if it has none."""
        key = (partition.topic_id, partition.index)
        self.leave(partition)
        follower = partition.follower
        if follower is None or follower.leader_id < 0:
            return
        number = (partition.topic_id.int + partition.index) % self._fetchers_a_leader
        fetcher = self._fetchers.get((follower.leader_id, number))
        if fetcher is None:
            fetcher = self._fetchers[follower.leader_id, number] = _Fetcher(self, follower.leader_id, number)
            self.node.supervisor.spawn(f"replica-fetcher-{follower.leader_id}-{number}", fetcher.run())
        self._of_partition[key] = fetcher
        fetcher.add(key, _Followed(partition, follower))

    def leave(self, partition: Partition) -> None:
        """Copy the partition no more."""
        key = (partition.topic_id, partition.index)
        fetcher = self._of_partition.pop(key, None)
        if fetcher is not None:
            fetcher.remove(key)

    def configure(self, partitions: Iterable[Partition]) -> None:
        """Take over changed settings."""
        wanted = self.node.config[broker_settings.NUM_REPLICA_FETCHERS]
        if wanted != self._fetchers_a_leader:
            self._fetchers_a_leader = wanted
            for partition in list(partitions):
                self.follow(partition)


class _Fetcher:
    """One task's partitions and session, all of one leader."""

    def __init__(self, owner: ReplicaFetchers, leader_id: int, number: int) -> None:
        self._owner = owner
        self._node = owner.node
        self._loop = owner.node.loop
        self._leader_id = leader_id
        self._number = number
        self._active: dict[Key, _Followed] = {}
        self._paused: dict[Key, _Followed] = {}
        self._changed: dict[Key, None] = {}
        """Active partitions whose position the leader's session does not have."""
        self._in_session: dict[Key, None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._news = asyncio.Event()
        self._asking: asyncio.Task[FetchResponse] | None = None
        self._connection = 0
        self._failures = 0

    # -- which partitions ---------------------------------------------------------------------------

    def add(self, key: Key, followed: _Followed) -> None:
        """Copy one more."""
        self._active[key] = followed
        self._changed[key] = None
        self._news.set()
        if self._asking is not None:
            self._loop.call_later(INTERRUPT_DELAY_SECONDS, self._interrupt, self._asking)

    def remove(self, key: Key) -> None:
        """Copy one less."""
        self._active.pop(key, None)
        self._paused.pop(key, None)
        self._changed.pop(key, None)

    def _interrupt(self, asking: asyncio.Task[FetchResponse]) -> None:
        """Leave a fetch that waits: there are partitions that it does not know."""
        if asking is self._asking and self._changed:
            self._connection ^= 1
            asking.cancel()

    def _pause(self, key: Key, seconds: float) -> None:
        followed = self._active.pop(key, None)
        if followed is not None:
            self._changed.pop(key, None)
            followed.resume_at = self._loop.time() + seconds
            self._paused[key] = followed

    def _pause_after(self, key: Key, followed: _Followed) -> None:
        """After a failure: longer each time."""
        longest = self._node.config[broker_settings.REPLICA_FETCH_BACKOFF_MS] / 1000
        followed.failures += 1
        seconds = min(FIRST_PAUSE_SECONDS * 2 ** min(followed.failures, 16), longest)
        self._pause(key, seconds)
        if followed.failures <= QUICK_RETRIES:
            self._loop.call_later(seconds, self._resume_beside_a_fetch)

    def _resume_beside_a_fetch(self) -> None:
        """A leader that has only just heard that it is one must not be left for as long as a fetch waits."""
        if self._asking is not None:
            self._resume()
            self._interrupt(self._asking)

    def _resume(self) -> None:
        """Take up the paused ones whose time has come."""
        if not self._paused:
            return
        now = self._loop.time()
        for key in [key for key, each in self._paused.items() if each.resume_at <= now]:
            self._active[key] = self._paused.pop(key)
            self._changed[key] = None

    # -- the loop -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch for ever."""
        while True:
            self._resume()
            self._hold_back()
            if not self._active:
                await self._until_news()
                continue
            request = self._request()
            try:
                response = await self._ask(request)
            except PeerUnreachable as problem:
                await self._leader_failed(str(problem))
                continue
            if response is None:
                self._begin_session()
                continue
            try:
                await self._take(response)
                self._failures = 0
            except LeaderUnusable as problem:
                await self._leader_failed(str(problem))

    async def _until_news(self) -> None:
        """Until a partition comes, or a paused one's time has come."""
        self._news.clear()
        now = self._loop.time()
        seconds = min((max(0.0, each.resume_at - now) for each in self._paused.values()), default=None)
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _leader_failed(self, reason: str) -> None:
        """The leader does not answer: try again later, with a new session."""
        if not self._failures:
            log.warning("fetch failed leader=%d fetcher=%d: %s", self._leader_id, self._number, reason)
        longest = self._node.config[broker_settings.REPLICA_FETCH_BACKOFF_MS] / 1000
        self._failures += 1
        self._session_id = 0
        self._begin_session()
        await asyncio.sleep(min(FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 16), longest))

    async def _ask(self, request: FetchRequest) -> FetchResponse | None:
        """The answer; None if the request was left alone for partitions that came meanwhile."""
        address = address_of_broker(self._node, self._leader_id)
        if address is None:
            raise PeerUnreachable(f"broker {self._leader_id} is not there")
        purpose = f"replica-fetch-{self._number}" + ("b" if self._connection else "")
        timeout_ms = self._node.config[broker_settings.REPLICA_SOCKET_TIMEOUT_MS]

        async def ask() -> FetchResponse:
            answer = await self._node.peers.ask(purpose, address, request, timeout_ms=timeout_ms)
            assert isinstance(answer, FetchResponse)
            return answer

        asking = self._asking = self._loop.create_task(ask())
        try:
            return await asking
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                asking.cancel()
                raise
            return None
        finally:
            self._asking = None

    def _hold_back(self) -> None:
        """Pause partitions that the quota has no room for; those in sync go on."""
        quota = self._owner.quotas.follower
        if not quota.is_limited or not quota.is_exceeded():
            return
        for key, each in list(self._active.items()):
            if each.lags and quota.covers(each.partition.topic, each.partition.index):
                self._pause(key, THROTTLED_PAUSE_SECONDS)

    # -- requests -----------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        self._session_epoch = 0

    def _request(self) -> FetchRequest:
        config = self._node.config
        is_full = self._session_epoch == 0
        named = self._active if is_full else self._changed
        topics: dict[UUID, FetchTopic] = {}
        max_bytes = config[broker_settings.REPLICA_FETCH_MAX_BYTES]
        for key in named:
            followed = self._active[key]
            position = followed.sent = followed.follower.position()
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(
                    topic=followed.partition.topic, topic_id=key[0], partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        forgotten: dict[UUID, ForgottenTopic] = {}
        if is_full:
            self._in_session = dict.fromkeys(self._active)
        else:
            for key in [key for key in self._in_session if key not in self._active]:
                del self._in_session[key]
                forgotten.setdefault(
                    key[0], ForgottenTopic(topic_id=key[0], partitions=[])
                ).partitions.append(key[1])
            self._in_session.update(self._changed)
        self._changed = {}
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._node.node_id, replica_epoch=self._node.lifecycle.broker_epoch
            ),
            max_wait_ms=config[broker_settings.REPLICA_FETCH_WAIT_MAX_MS],
            min_bytes=config[broker_settings.REPLICA_FETCH_MIN_BYTES],
            max_bytes=config[broker_settings.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            isolation_level=0,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    # -- answers ------------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> None:
        """Perform an answer. Raises LeaderUnusable."""
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            if code in _SESSION_ERRORS and self._session_epoch != 0:
                self._session_id = 0
                self._begin_session()
                return
            raise LeaderUnusable(code.name)
        if self._session_epoch == 0:
            self._session_id = response.session_id
        # Without a session every fetch is a full one.
        self._session_epoch = 0 if not self._session_id else max(1, (self._session_epoch + 1) % 2**31)
        cuts: list[_Cut] = []
        unknown: dict[Key, tuple[_Followed, AskOffsets]] = {}
        slice_end = self._loop.time() + SLICE_SECONDS
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed = self._active.get(key)
                if followed is None or followed.sent is None or not followed.is_current:
                    continue
                self._take_partition(key, followed, data, cuts, unknown)
                if self._loop.time() >= slice_end:
                    await asyncio.sleep(0)
                    slice_end = self._loop.time() + SLICE_SECONDS
        if unknown:
            await self._look_for_offsets(unknown, cuts)
        if cuts:
            await self._cut(cuts)

    def _take_partition(
        self,
        key: Key,
        followed: _Followed,
        data: PartitionData,
        cuts: list[_Cut],
        unknown: dict[Key, tuple[_Followed, AskOffsets]],
    ) -> None:
        asked = followed.sent
        assert asked is not None
        diverging = data.diverging_epoch
        records = data.records
        answer = FetchAnswer(
            ErrorCode(data.error_code),
            data.high_watermark,
            data.log_start_offset,
            None if diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset),
            b"" if records is None else records,
        )
        partition = followed.partition
        for effect in followed.follower.on_answer(asked, answer):
            match effect:
                case AppendFetched():
                    if not self._append(key, followed, effect):
                        return
                case AdvanceLogStart(offset):
                    partition.log.advance_log_start_offset(min(offset, partition.log.log_end_offset))
                case Truncate() | StartOver():
                    cuts.append(_Cut(followed, asked.fetch_offset, effect))
                    return
                case AskOffsets():
                    unknown[key] = (followed, effect)
                    return
                case AwaitMetadata(error) | RetryLater(error):
                    if followed.failures in (0, 6):
                        log.info(
                            "fetch refused topic=%s partition=%d leader=%d epoch=%d error=%s",
                            partition.topic, partition.index, self._leader_id,
                            followed.follower.leader_epoch, error.name,
                        )  # fmt: skip
                    self._pause_after(key, followed)
                    return
        followed.failures = 0
        followed.lags = partition.log.log_end_offset < data.high_watermark
        partition.on_progress()
        if partition.log.log_end_offset != asked.fetch_offset or (
            partition.log.log_start_offset != asked.log_start_offset
        ):
            self._changed[key] = None

    def _append(self, key: Key, followed: _Followed, effect: AppendFetched) -> bool:
        """Check and append; False if that failed, and the partition pauses."""
        partition = followed.partition
        try:
            batches = check_fetched(effect.records, effect.fetch_offset, effect.leader_epoch)
            if not batches.headers:
                raise CorruptBatch("not one whole batch")
            stored = partition.log
            start = stored.log_start_offset
            first = batches.headers[0].base_offset
            if first < stored.log_end_offset:
                if start != stored.log_end_offset:
                    raise CorruptBatch(f"a batch begins at {first}, before the log's end")
                # The leader's log begins within this batch (DeleteRecords), and this one is empty.
                stored.truncate_fully(first, now_ms=self._node.now_ms())
            result = stored.append(batches.data, batches.headers, now_ms=self._node.now_ms())
            if first < start:
                stored.advance_log_start_offset(start)
        except (CorruptBatch, OSError, StorageError, ValueError) as problem:
            log.error(
                "fetched records not appended topic=%s partition=%d leader=%d offset=%d: %s",
                partition.topic, partition.index, self._leader_id, effect.fetch_offset, problem,
            )  # fmt: skip
            self._pause_after(key, followed)
            return False
        if result.rolled or result.flush_due:
            self._owner.logs.flush_soon()
        partition.replicated_bytes_in += len(batches.data)
        quota = self._owner.quotas.follower
        if quota.covers(partition.topic, partition.index):
            quota.record(len(batches.data))
        followed.follower.on_appended()
        return True

    # -- truncation ---------------------------------------------------------------------------------

    async def _cut(self, cuts: Sequence[_Cut]) -> None:
        """Shorten logs, once the checkpoints that are above the cuts are lowered on the disk."""
        lowered: list[tuple[Log, int]] = [(each.followed.partition.log, each.effect.offset) for each in cuts]
        await self._owner.logs.before_truncation(lowered)
        now_ms = self._node.now_ms()
        for followed, end_offset, effect in cuts:
            partition = followed.partition
            stored = partition.log
            if not followed.is_current or stored.log_end_offset != end_offset:
                continue
            log.info(
                "log cut topic=%s partition=%d leader=%d epoch=%d end=%d to=%d",
                partition.topic, partition.index, self._leader_id,
                followed.follower.leader_epoch, end_offset, effect.offset,
            )  # fmt: skip
            if isinstance(effect, Truncate):
                stored.truncate_to(effect.offset, now_ms=now_ms)
            else:
                stored.truncate_fully(effect.offset, now_ms=now_ms)
            self._owner.cleaner.on_truncated(partition.topic, partition.index, stored.log_end_offset)
            followed.follower.on_truncated()
            partition.on_truncated()
            key = (partition.topic_id, partition.index)
            if key in self._active:
                self._changed[key] = None

    async def _look_for_offsets(
        self, unknown: Mapping[Key, tuple[_Followed, AskOffsets]], cuts: list[_Cut]
    ) -> None:
        """Ask the leader where its logs begin and end, for those that it has no such offset in."""
        ends = await self._list_offsets(unknown, LATEST)
        starts = await self._list_offsets(unknown, EARLIEST_LOCAL)
        for key, (followed, effect) in unknown.items():
            start, end = starts.get(key), ends.get(key)
            effects: Sequence[Effect] = ()
            if start is not None and end is not None and followed.is_current:
                effects = followed.follower.on_leader_offsets(effect.position, start, end)
            found = [each for each in effects if isinstance(each, (Truncate, StartOver))]
            if found:
                cuts += [_Cut(followed, effect.position.fetch_offset, each) for each in found]
            elif key in self._active:
                self._pause_after(key, followed)

    async def _list_offsets(
        self, unknown: Mapping[Key, tuple[_Followed, AskOffsets]], timestamp: int
    ) -> dict[Key, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        keys: dict[tuple[str, int], Key] = {}
        for key, (followed, effect) in unknown.items():
            name = followed.partition.topic
            keys[name, key[1]] = key
            topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[])).partitions.append(
                ListOffsetsPartition(
                    partition_index=key[1],
                    current_leader_epoch=effect.position.leader_epoch,
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=self._node.node_id, isolation_level=0, topics=list(topics.values())
        )
        address = address_of_broker(self._node, self._leader_id)
        if address is None:
            raise LeaderUnusable(f"broker {self._leader_id} is not there")
        try:
            answer = await self._node.peers.ask(
                "replica-offsets",
                address,
                request,
                timeout_ms=self._node.config[broker_settings.REPLICA_SOCKET_TIMEOUT_MS],
            )
        except PeerUnreachable as problem:
            raise LeaderUnusable(str(problem)) from problem
        assert isinstance(answer, ListOffsetsResponse)
        return {
            keys[topic.name, each.partition_index]: each.offset
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE and (topic.name, each.partition_index) in keys
        }
