"""Fetches of followers: looks at the partitions of a session that have news, and at no others.

Theory of operation. A follower's session may hold thousands of partitions of which a few have news, and each
fetch that comes and each append may want an answer; so nothing here goes through all of them. A
`SessionWatch` stands between a session and its partitions: they mark themselves in it when they were appended
to, their high watermark moved or their role changed. A fetch looks at the partitions that it names and at
those that are marked:

    named       the follower's position has changed: its epochs are compared, its log's end counts
    marked      there may be more to send, or another high watermark
    others      are as they were when the follower was last answered: it has all records, and fetches. That it
                does is noted once for the session (`FetcherTimes`), where the leaders find it

An append to any of the partitions wakes a fetch that waits; a high watermark does not, it goes with the next
answer. A partition that could not be sent whole, or that gave an error, stays marked. Every partition is
marked now and then by the in-sync watch, which covers changes without an event of their own, such as
retention.

A session of a follower that has gone is let go at the first mark after a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.network.connection import Reply
from ottla.broker.network.context import RequestContext
from ottla.broker.parts import Loop
from ottla.broker.replication.partition import Partition
from ottla.core.replica.fetch_sessions import FetchedPartition, FetchPlan, FetchSession, PartitionKey
from ottla.core.replica.leader import FetcherTimes
from ottla.core.replica.reading import find_divergence
from ottla.protocol import errors
from ottla.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower, UnknownLeaderEpoch
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from ottla.storage.errors import LogCorruption, OffsetOutOfRange

if TYPE_CHECKING:
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replication import Replication
    from ottla.core.replica.fetch_sessions import FetchSessionCache

log = logging.getLogger("ottla.broker.replication")

IDLE_MS: Final = 60_000
NO_EPOCH: Final = -1

Answers = dict[PartitionKey, tuple[FetchedPartition, PartitionData]]
MakeReply = Callable[[Answers, bool], Reply]
"""Makes the reply with these answers; the flag tells whether one of them is an error."""


class FollowerFetchNode(Loop, Protocol):
    """The members of a node that followers' fetches use."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that lead and copy them."""
        ...

    @property
    def fetch_sessions(self) -> FetchSessionCache:
        """Fetch sessions of consumers and followers."""
        ...


class SessionWatch:
    """The partitions of a session that may have news. Closed with the session."""

    def __init__(self, node: FollowerFetchNode, session: FetchSession | None) -> None:
        self.times = FetcherTimes()
        self.marked: dict[PartitionKey, None] = {}
        self.wake: Callable[[], None] | None = None
        """Called after an append, once a turn of the loop, while a fetch waits."""
        self._node = node
        self._session = session
        self._watched: dict[PartitionKey, tuple[Partition, Callable[[], None], Callable[[], None]]] = {}
        self._wake_scheduled = False

    def watch(self, key: PartitionKey, partition: Partition) -> None:
        """Hear of the partition from now on."""
        known = self._watched.get(key)
        if known is not None:
            if known[0] is partition:
                return
            self.forget(key)
        appended, committed = partial(self._appended, key), partial(self._committed, key)
        self._watched[key] = (partition, appended, committed)
        partition.add_append_waiter(appended)
        partition.add_waiter(committed)

    def forget(self, key: PartitionKey) -> None:
        """The session has the partition no more."""
        known = self._watched.pop(key, None)
        if known is not None:
            known[0].remove_waiter(known[1])
            known[0].remove_waiter(known[2])
        self.marked.pop(key, None)

    def close(self) -> None:
        """The session has ended."""
        for key in list(self._watched):
            self.forget(key)

    def _committed(self, key: PartitionKey) -> None:
        if not self._is_idle():
            self.marked[key] = None

    def _appended(self, key: PartitionKey) -> None:
        self._committed(key)
        if self.wake is not None and not self._wake_scheduled:
            self._wake_scheduled = True
            self._node.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_scheduled = False
        if self.wake is not None:
            self.wake()

    def _is_idle(self) -> bool:
        """Whether the follower has not fetched for long; the session ends then."""
        if self.wake is not None or self._node.loop.time() * 1000 - self.times.last_fetch_ms < IDLE_MS:
            return False
        if self._session is not None:
            self._node.fetch_sessions.drop(self._session.session_id)
        self.close()
        return True


class FollowerFetch:
    """One follower's request under way."""

    __slots__ = (
        "_answers",
        "_failed",
        "_future",
        "_make_reply",
        "_node",
        "_plan",
        "_read_bytes",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_timer",
        "_wake",
        "_watch",
    )

    def __init__(
        self,
        node: FollowerFetchNode,
        context: RequestContext,
        request: FetchRequest,
        plan: FetchPlan,
        replica: tuple[int, int],
        make_reply: MakeReply,
    ) -> None:
        """`replica`: the follower's node id and its broker epoch, -1 if it does not say."""
        self._node = node
        self._request = request
        self._plan = plan
        self._replica_id, self._replica_epoch = replica
        self._make_reply = make_reply
        self._answers: Answers = {}
        self._failed = False
        self._read_bytes = 0
        self._future: asyncio.Future[Reply] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wake: Callable[[], None] | None = None
        session = plan.session
        watch = session.watch if session is not None else None
        if watch is None:
            watch = SessionWatch(node, session)
            if session is not None:
                session.watch = watch
        assert isinstance(watch, SessionWatch)
        self._watch = watch

    def handle(
        self, named: list[PartitionKey], forgotten: list[PartitionKey]
    ) -> Reply | asyncio.Future[Reply]:
        """Answer at once, or with a future when the request has to wait."""
        watch, plan = self._watch, self._plan
        watch.times.last_fetch_ms = int(self._node.loop.time() * 1000)
        for key in forgotten:
            watch.forget(key)
        if plan.session is None:
            partitions = {each.key: each for each in plan.partitions}
        else:
            partitions = plan.session.partitions
        # Those that were marked first: a full answer must not leave out the same ones for ever.
        todo = dict(watch.marked)
        todo.update(dict.fromkeys(named if plan.incremental else partitions))
        self._read(todo, partitions, is_first=True)
        if not self._may_wait():
            return self._reply()
        loop = self._node.loop
        self._future = loop.create_future()
        self._future.add_done_callback(self._forget)
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._complete)
        self._wake = watch.wake = partial(self._woken, partitions)
        return self._future

    # -- waiting ------------------------------------------------------------------------------------

    def _may_wait(self) -> bool:
        satisfied = self._failed or self._read_bytes >= self._request.min_bytes
        return not satisfied and self._request.max_wait_ms > 0

    def _woken(self, partitions: dict[PartitionKey, FetchedPartition]) -> None:
        self._read(dict(self._watch.marked), partitions, is_first=False)
        if not self._may_wait():
            self._complete()

    def _complete(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(self._reply())

    def _forget(self, _: asyncio.Future[Reply]) -> None:
        """The request is answered, or the follower has gone."""
        if self._watch.wake is self._wake:  # else another fetch of the session has come since
            self._watch.wake = None
        if self._timer is not None:
            self._timer.cancel()
        if self._plan.session is None:
            self._watch.close()

    def _reply(self) -> Reply:
        session = self._plan.session
        if session is None:
            self._watch.close()
        elif self._watch.marked and self._read_bytes == 0 and self._future is not None:
            # High watermarks that moved while it waited.
            marked = dict(self._watch.marked)
            self._read(marked, session.partitions, is_first=False)
        return self._make_reply(self._answers, self._failed)

    # -- reading ------------------------------------------------------------------------------------

    def _read(
        self,
        todo: dict[PartitionKey, None],
        partitions: dict[PartitionKey, FetchedPartition],
        *,
        is_first: bool,
    ) -> None:
        """Look at some partitions. `is_first`: their positions are the follower's news."""
        left = self._request.max_bytes - self._read_bytes
        watch = self._watch
        served: list[PartitionKey] = []
        for key in todo:
            wanted = partitions.get(key)
            watch.marked.pop(key, None)
            if wanted is None:
                continue
            earlier = self._answers.get(key)
            if earlier is not None and earlier[1].records:
                watch.marked[key] = None  # its records are in the answer, others come with the next
                continue
            data, is_whole = self._read_partition(key, wanted, left, is_first)
            self._answers[key] = (wanted, data)
            if data.records:
                self._read_bytes += len(data.records)
                left -= len(data.records)
                served.append(key)
            elif data.error_code or data.diverging_epoch.epoch >= 0:
                self._failed = True
                watch.marked[key] = None
            elif not is_whole:
                watch.marked[key] = None
        watch.marked.update(dict.fromkeys(served))

    def _read_partition(
        self, key: PartitionKey, wanted: FetchedPartition, left: int, is_first: bool
    ) -> tuple[PartitionData, bool]:
        """The answer, and whether it holds all that there is to send."""
        partitions = self._node.partitions
        topic, index = key
        try:
            if isinstance(topic, str):
                partition = partitions.partition(topic, index)
            else:
                partition = partitions.partition_by_id(topic, index)
            leader = partition.leader
            partition.check_leader_epoch(wanted.current_leader_epoch)
            if leader.follower(self._replica_id) is None:
                # A follower that names the leader epoch knows of an assignment that this broker has not heard
                # of yet.
                raise UnknownLeaderEpoch() if wanted.current_leader_epoch >= 0 else NotLeaderOrFollower()
            stored = partition.log
            offset = wanted.fetch_offset
            if offset < stored.log_start_offset:
                raise errors.OffsetOutOfRange()
            diverging = None
            if wanted.last_fetched_epoch >= 0:
                own = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
                diverging = find_divergence(wanted.last_fetched_epoch, offset, own)
            if diverging is None and offset > stored.log_end_offset:
                raise errors.OffsetOutOfRange()
        except KafkaError as error:
            return _failure(index, error.code), False
        self._watch.watch(key, partition)
        if diverging is not None:
            data = _describe(partition)
            data.diverging_epoch = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            return data, False
        if is_first:
            self._node.replication.in_sync.on_follower_fetch(
                partition,
                self._replica_id,
                offset,
                wanted.log_start_offset,
                self._replica_epoch,
                self._watch.times,
            )
        data = _describe(partition)
        if offset == stored.log_end_offset:
            return data, True
        return data, self._read_log(partition, wanted, data, left)

    def _read_log(
        self, partition: Partition, wanted: FetchedPartition, data: PartitionData, left: int
    ) -> bool:
        """Put the log's batches into `data`. Returns whether these are all."""
        quota = self._node.replication.quotas.leader
        throttled = (
            quota.is_limited
            and self._replica_id not in partition.leader.isr
            and quota.covers(partition.topic, partition.index)
        )
        if (throttled and quota.is_exceeded()) or (left <= 0 and self._read_bytes > 0):
            return False
        stored = partition.log
        try:
            piece = stored.read(
                wanted.fetch_offset,
                max(0, min(wanted.max_bytes, left)),
                upper_offset=stored.log_end_offset,
                at_least_one_batch=self._read_bytes == 0,
            )
            data.records = piece.read()
        except OffsetOutOfRange:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        except (OSError, LogCorruption) as problem:
            log.error("read failed topic=%s partition=%d error=%s", partition.topic, partition.index, problem)
            data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        partition.replicated_bytes_out += len(data.records or b"")
        if throttled and data.records:
            quota.record(len(data.records))
        return False  # the next fetch names it


def _describe(partition: Partition) -> PartitionData:
    return PartitionData(
        partition_index=partition.index,
        error_code=0,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=None,
        records=b"",
    )


def _failure(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        records=b"",
    )
