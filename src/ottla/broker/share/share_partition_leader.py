"""One share partition on its leader: the state machine with its log, its timer, its writes and its waiters.

Theory of operation. `core.share.SharePartition` decides; here it is loaded from the share coordinator, its
locks are timed out and its changes persisted. One write is on its way at a time, changes decided meanwhile go
with the next: so they end in their order, and acknowledgements of a busy partition share their writes. An
acknowledgement is answered when its write has ended. Dead letters go to their queue one series after the
other (dead_letter_queue.py), beside everything else; what becomes of them is persisted like any change.

A leader ends (`fence`) when the broker leads the partition no more, when the coordinator says that a newer
leader writes the state, or when no member of the group is left here; then the next fetch loads the state
anew.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replication.partition import Partition
from ottla.core.settings import group_settings
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.offset_reset import EARLIEST, LATEST, reset_timestamp_ms
from ottla.core.share.share_partition import (
    Acknowledgement,
    SharePartition,
    SharePartitionSettings,
    Write,
)
from ottla.core.share.state_batches import NO_OFFSET, StateBatch
from ottla.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    NotLeaderOrFollower,
    UnknownServerError,
    error_class,
)
from ottla.protocol.messages import (
    read_share_group_state_request,
    write_share_group_state_request,
)
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.share.node import DeadLetters, ShareLeaderNode

log = logging.getLogger("ottla.broker.share")

TIMER_SLACK_SECONDS = 0.001
"""Wake a little late rather than a little early, and do it once."""
MAX_BATCHES_A_WRITE = 20_000
"""How many batches of waiting changes are written together; a single change may have more."""

Waiter = Callable[[], None]


class Status(enum.Enum):
    """The states of a share partition's leader."""

    LOADING = "loading"
    ACTIVE = "active"
    FENCED = "fenced"


class Owner(Protocol):
    """The owner of the leaders of all share partitions, which ends those that are not needed."""

    def leader_failed(self, leader: SharePartitionLeader, error: KafkaError) -> None:
        """The leader could not be loaded, or its state not be written."""
        ...

    def leader_idle(self, leader: SharePartitionLeader) -> None:
        """A leader has written everything."""
        ...


class SharePartitionLeader:
    """A share partition that this broker leads. Used on the event loop only."""

    def __init__(
        self,
        node: ShareLeaderNode,
        key: SharePartitionKey,
        partition: Partition,
        settings: SharePartitionSettings,
        dead_letters: DeadLetters,
        owner: Owner,
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader.leader_epoch
        self.machine = SharePartition(settings)
        self.status = Status.LOADING
        self.load_error: KafkaError | None = None
        """The error that kept it from loading; it is fenced then."""
        self._node = node
        self._loop = node.loop
        self._owner = owner
        self._dead_letters = dead_letters
        self._burial: asyncio.Task[None] | None = None
        """The task that brings dead letters to their queue, while there are any."""
        self._state_epoch = 0
        self._waiters: dict[Waiter, None] = {}
        self._wake_scheduled = False
        self._unwritten: list[tuple[Write, asyncio.Future[None] | None]] = []
        self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def is_active(self) -> bool:
        return self.status is Status.ACTIVE

    @property
    def is_idle(self) -> bool:
        """Whether no change and no dead letter waits to be written."""
        return not self._writing and self._burial is None

    def now_ms(self) -> int:
        """The time of the steady clock, which locks go by."""
        return int(self._loop.time() * 1000)

    # -- beginning and end --------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the state from the share coordinator, which remembers this leader's epoch."""
        wanted = read_share_group_state_request.PartitionData(
            partition=self.key.partition, leader_epoch=self.leader_epoch
        )
        topic = read_share_group_state_request.ReadStateData(topic_id=self.key.topic_id, partitions=[wanted])
        answer = await self._node.share_state.read(
            ReadShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])
        )
        if self.status is not Status.LOADING:
            return
        state = answer.results[0].partitions[0]
        if state.error_code != ErrorCode.NONE:
            self._refuse(_persister_error(ErrorCode(state.error_code), state.error_message))
            return
        self._state_epoch = state.state_epoch
        try:
            start_offset = state.start_offset
            if start_offset == NO_OFFSET:
                start_offset = await self._first_start_offset()
        except KafkaError as error:  # the partition went while it was searched
            self._refuse(error)
            return
        except (OSError, ValueError, StorageError) as problem:
            log.error("share partition %s could not be loaded: %s", self.key.coordinator_key, problem)
            self._refuse(UnknownServerError())
            return
        self._begin(
            start_offset,
            [
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in state.state_batches
            ],
        )

    def _begin(self, start_offset: int, batches: Sequence[StateBatch]) -> None:
        if self.status is Status.LOADING:  # not fenced meanwhile
            self.machine.load(start_offset, batches)
            self.status = Status.ACTIVE
            self._bury()
            self.wake()

    async def _first_start_offset(self) -> int:
        """The start offset of a group without state: share.auto.offset.reset."""
        node, stored = self._node, self.partition.log
        config = node.config.for_group(self.key.group_id, node.image)
        strategy = config[group_settings.SHARE_AUTO_OFFSET_RESET]
        if strategy == EARLIEST:
            return stored.log_start_offset
        high_watermark = self.partition.high_watermark
        timestamp_ms = reset_timestamp_ms(strategy, node.now_ms())
        if strategy == LATEST or timestamp_ms is None:
            return high_watermark
        found = await node.replication.timestamps.find(self.partition, timestamp_ms)
        return high_watermark if found is None else min(found.offset, high_watermark)

    def _refuse(self, error: KafkaError) -> None:
        self.load_error = error
        self._owner.leader_failed(self, error)

    def fence(self) -> None:
        """Give no records out any more; waiting fetches are woken, and get none."""
        self.status = Status.FENCED
        if self._timer is not None:
            self._timer.cancel()
        if self._burial is not None:
            self._burial.cancel()
        self.wake()

    # -- members ------------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> asyncio.Future[None] | None:
        """Take a member's acknowledgements. The future is done when they are durable; None if nothing has to
        be written.

        Raises (or the future does) KafkaError; then nothing has changed.
        """
        try:
            write = self.machine.acknowledge(member_id, acknowledgements, self.now_ms())
        finally:
            self._bury()  # a refused acknowledgement may leave records without deliveries
        self.set_timer()
        if not write.batches:
            return None
        done = self._loop.create_future()
        self._persist(write, done)
        return done

    def release(self, member_id: str) -> None:
        """A member is gone: make the records that it held available, once that is durable."""
        write = self.machine.release(member_id)
        if write.batches:
            self._persist(write, None)

    # -- waiting ------------------------------------------------------------------------------------

    def add_waiter(self, waiter: Waiter) -> None:
        """Call `waiter` whenever there may be records to acquire, until it is removed."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget `waiter`; unknown ones are no error."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Wake the waiting fetches, once a turn of the loop."""
        if self._waiters and not self._wake_scheduled:
            self._wake_scheduled = True
            self._loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._wake_scheduled = False
        for waiter in tuple(self._waiters):
            waiter()

    # -- time ---------------------------------------------------------------------------------------

    def set_timer(self) -> None:
        """Wake when the next lock times out; to be called after records were acquired."""
        wake_ms = self.machine.next_wake_ms()
        if (
            wake_ms is None
            or self.status is not Status.ACTIVE
            or (self._timer is not None and self._timer_ms <= wake_ms)
        ):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = wake_ms
        self._timer = self._loop.call_at(wake_ms / 1000 + TIMER_SLACK_SECONDS, self._expire)

    def _expire(self) -> None:
        self._timer = None
        write = self.machine.expire(self.now_ms())
        self.set_timer()
        if write.batches:
            self._persist(write, None)
            self.wake()

    # -- persisting ---------------------------------------------------------------------------------

    def _persist(self, write: Write, done: asyncio.Future[None] | None) -> None:
        self._unwritten.append((write, done))
        if not self._writing:
            self._writing = True
            name = f"write-share-state-{self.key.partition}"
            self._node.supervisor.spawn(name, self._write_all())

    async def _write_all(self) -> None:
        """Write the decided changes until none is left."""
        while self._unwritten:
            together = self._next_writes()
            error = await self._write([batch for write, _ in together for batch in write.batches])
            now_ms = self.now_ms()
            freed = False
            for write, done in together:
                freed |= self.machine.write_ended(write, committed=error is None, now_ms=now_ms)
                if done is None or done.done():  # no client waits: expired or released, or the client hung up
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
            self.set_timer()
            if freed:
                self.wake()
            if error is not None:
                log.warning(
                    "share state was not written key=%s error=%s", self.key.coordinator_key, error.code.name
                )
                self._owner.leader_failed(self, error)
            self._bury()
        self._writing = False
        if self.is_idle:
            self._owner.leader_idle(self)

    def _next_writes(self) -> list[tuple[Write, asyncio.Future[None] | None]]:
        count = taken = 0
        for write, _ in self._unwritten:
            if taken and count + len(write.batches) > MAX_BATCHES_A_WRITE:
                break
            count += len(write.batches)
            taken += 1
        together = self._unwritten[:taken]
        del self._unwritten[:taken]
        return together

    async def _write(self, batches: Sequence[StateBatch]) -> KafkaError | None:
        """Persist changed batches with the start as it is now. Returns the error, if there is one."""
        data = write_share_group_state_request.PartitionData(
            partition=self.key.partition,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.machine.start_offset,
            delivery_complete_count=self.machine.delivery_complete_count,
            state_batches=[
                write_share_group_state_request.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        topic = write_share_group_state_request.WriteStateData(topic_id=self.key.topic_id, partitions=[data])
        answer = await self._node.share_state.write(
            WriteShareGroupStateRequest(group_id=self.key.group_id, topics=[topic])
        )
        result = answer.results[0].partitions[0]
        if result.error_code == ErrorCode.NONE:
            return None
        return _persister_error(ErrorCode(result.error_code), result.error_message)

    # -- dead letters -------------------------------------------------------------------------------

    def _bury(self) -> None:
        """Bring the dead letters that there are to their queue, unless a task does that already."""
        if self.status is Status.ACTIVE and self._burial is None and self.machine.has_dead_letters:
            name = f"dead-letters-{self.key.partition}"
            self._burial = self._node.supervisor.spawn(name, self._bury_all())

    async def _bury_all(self) -> None:
        try:
            while letters := self.machine.take_dead_letters():
                async for done in self._dead_letters.write(self.key, self.partition, letters):
                    if done:
                        self._persist(self.machine.archive_dead_letters(done), None)
        finally:
            self._burial = None
        if self.is_idle:
            self._owner.leader_idle(self)


def _persister_error(code: ErrorCode, message: str | None) -> KafkaError:
    """The error for a member when its leader's state could not be read or written."""
    text = message or code.message
    match code:
        case (
            ErrorCode.NOT_COORDINATOR
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ):
            return CoordinatorNotAvailable(text)
        case ErrorCode.GROUP_ID_NOT_FOUND | ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return error_class(code)(text)
        case ErrorCode.FENCED_LEADER_EPOCH | ErrorCode.FENCED_STATE_EPOCH:
            return NotLeaderOrFollower(text)
        case _:
            return UnknownServerError(text)
