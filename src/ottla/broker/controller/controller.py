"""The metadata on this node, and, where this node leads the quorum, the only way to change it.

Theory of operation. On every node `image` follows the records that are committed, in their order; listeners
hear of each step after it. A node that was away too long is given a snapshot, and its listeners hear of the
difference between its image and the snapshot.

On the leader a change is decided against the metadata that includes everything appended so far (`_ahead`);
its records are appended, and the next sync, and the next fetches of the other voters, make them durable
together with other changes that were appended meanwhile: many changes in each. Only when they are committed
are they applied to `image`, and only then is the change answered. So no client ever sees metadata that a
crash could take back, and a change that was answered is there after any crash.

A leader may decide once everything of older epochs is applied: when the first record of its own epoch is
committed (in a quorum of this node alone, whose whole log counts, at once). Then it is active: it ends the
metadata transaction that a dead controller may have left open, and writes the first records of a new cluster.
When it loses its epoch, the records that it had appended may be lost or not: the changes that wait for them
end with NOT_CONTROLLER.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.broker.config import BrokerConfig
from ottla.broker.controller.metadata_formatting import bootstrap_records
from ottla.broker.controller.metadata_quorum import MetadataQuorum, QuorumFailure
from ottla.broker.controller.metadata_snapshots import SnapshotContent
from ottla.broker.supervisor import Spawn, start_task
from ottla.config.errors import ConfigError
from ottla.core.decisions.decision import Decision
from ottla.core.image.features import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    OLDEST_WRITTEN_METADATA_VERSION,
)
from ottla.core.image.image import BROKER_RESOURCE, MetadataDelta, MetadataImage
from ottla.core.image.image_delta import image_delta
from ottla.core.image.snapshot_records import image_records
from ottla.core.quorum.api import Role, SnapshotId
from ottla.core.settings import broker_settings
from ottla.protocol.errors import KafkaStorageError, NotController, UnknownServerError
from ottla.protocol.records.abort_transaction_record import AbortTransactionRecord
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.records.no_op_record import NoOpRecord
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectoryError

log = logging.getLogger("ottla.broker")

T = TypeVar("T")

MetadataListener = Callable[[MetadataDelta], None]

#: A new cluster's settings are one transaction of this name, as in Kafka.
BOOTSTRAP_TRANSACTION = "Bootstrap records"
#: The records that are applied in one turn of the loop: a node that catches up answers requests in between.
APPLIED_AT_ONCE = 1_000
#: The most uncommitted records of a leader: one that can't commit may have been replaced already.
MAX_UNCOMMITTED_RECORDS = 200_000


class _Appended(NamedTuple):
    """An append of this leader: offsets from `first` up to `end`."""

    first: int
    end: int
    epoch: int
    records: Sequence[Message]


class Controller:
    """The metadata of the cluster on this node. Used on the event loop only."""

    def __init__(
        self, quorum: MetadataQuorum, config: BrokerConfig, now_ms: Callable[[], int], spawn: Spawn | None
    ) -> None:
        self._quorum = quorum
        self._config = config
        self._log = quorum.log
        self._now_ms = now_ms
        self._spawn = spawn
        self._listeners: list[MetadataListener] = []
        self._leadership_listeners: list[tuple[Callable[[int], None], Callable[[], None]]] = []
        #: Everything committed and applied. Always the same object.
        self.image = MetadataImage()
        #: Everything appended, while this node is active.
        self._ahead: MetadataImage | None = None
        self._appended: deque[_Appended] = deque()
        #: (the epoch that this node leads, the offset of its first record)
        self._epoch_start: tuple[int, int] | None = None
        self._committed = 0
        #: (offset, future), each done once the record at the offset is applied
        self._answers: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waited = 0
        self._progress = asyncio.Event()
        self._catching_up: asyncio.Handle | None = None
        self._loading: asyncio.Task[Any] | None = None
        self._snapshotting: asyncio.Task[Any] | None = None
        self._idle: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self.snapshots_written = 0
        self.records_applied = 0
        self.on_decided: Callable[[int], None] | None = None
        """Told how many microseconds each decision and its append took; None where that is not measured."""

    # -- opening and closing --------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        quorum: MetadataQuorum,
        config: BrokerConfig,
        *,
        now_ms: Callable[[], int],
        spawn: Spawn | None = None,
    ) -> Controller:
        """Read the metadata that is known to be committed: all of it in a quorum of this node alone.

        `spawn` starts the tasks; give the supervisor's, so that a task that dies stops the node. Raises
        LogDirectoryError, ConfigError, LogCorruption or OSError.
        """
        controller = cls(quorum, config, now_ms, spawn)
        quorum.follow(controller)
        found = quorum.log.take_snapshot_content()
        if found is not None:
            controller._take_over(_image_of(quorum, *found))
        if quorum.alone:
            delta = MetadataDelta()
            end = quorum.log.end_offset
            controller._read_log(end, delta, end + 1)
        config.follow(controller.image)
        controller._check_version()
        return controller

    def _check_version(self) -> None:
        level = self.image.features.get(METADATA_VERSION)
        if level is not None and not OLDEST_WRITTEN_METADATA_VERSION <= level <= LATEST_METADATA_VERSION:
            name = METADATA_VERSION_NAMES.get(level, f"level {level}")
            raise ConfigError(
                f"log directory {self._log.directory.parent} has metadata.version {name}, this ottla serves "
                f"{METADATA_VERSION_NAMES[OLDEST_WRITTEN_METADATA_VERSION]} to "
                f"{METADATA_VERSION_NAMES[LATEST_METADATA_VERSION]}: change it with kafka-features first"
            )

    async def wait_until_caught_up(self) -> None:
        """Wait until the high watermark that the leader told is applied: the start of a node among several.

        Raises ConfigError for metadata of a version that is not served, QuorumFailure.
        """
        while not 0 <= self._quorum.high_watermark <= self.image.last_offset + 1:
            if self._failure is not None:
                raise QuorumFailure(str(self._failure)) from self._failure
            self._progress.clear()
            await self._progress.wait()
        self._check_version()

    async def close(self) -> None:
        """Decide nothing more, and finish the tasks that run. The log stays open."""
        self._closed = True
        self._resign("this controller is stopping")
        if self._catching_up is not None:
            self._catching_up.cancel()
        running = [task for task in (self._loading, self._snapshotting, self._idle) if task is not None]
        for task in running:
            if task is not self._snapshotting:
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._wake_all(NotController("this controller is stopping"))

    # -- state ----------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether this node is the active controller and may submit."""
        return self._ahead is not None

    @property
    def uncommitted_decisions(self) -> int:
        """How many decisions wait for their commit."""
        return len(self._answers)

    @property
    def records_left(self) -> int:
        """How many committed records that this node knows of are not applied."""
        return max(0, self._committed - self.image.last_offset - 1)

    @property
    def epoch(self) -> int:
        """The newest epoch of the quorum that this node knows."""
        return self._quorum.epoch

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that is committed and applied."""
        return self.image.last_offset + 1

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record of the metadata log gets."""
        return self._log.end_offset

    @property
    def recovery_point(self) -> int:
        """Everything of the metadata log below is synced."""
        return self._log.recovery_point

    def add_listener(self, listener: MetadataListener) -> None:
        """Call `listener` with the difference after each change of `image`, on the event loop."""
        self._listeners.append(listener)

    def add_leadership_listener(
        self, on_active: Callable[[int], None], on_inactive: Callable[[], None]
    ) -> None:
        """Call `on_active(epoch)` once this node may submit, at once if it may already, and `on_inactive()`
        when it may not any more. On the event loop.
        """
        self._leadership_listeners.append((on_active, on_inactive))
        if self.active:
            on_active(self.epoch)

    # -- changes --------------------------------------------------------------------------------------

    async def submit(self, decide: Callable[[MetadataImage], Decision[T]]) -> T:
        """Make a change. Returns its answer once all that it is based on is committed and applied.

        `decide` runs at once and must not await; it gets an image of everything appended, so the first record
        that it decides on will have the offset `image.last_offset + 1`. Raises the errors of `decide`;
        NotController when this node is not active or stops being so meanwhile (the change may have happened
        then), or has too many uncommitted records; KafkaStorageError when the disk refuses,
        UnknownServerError for records that make no sense: nothing has happened then.
        """
        ahead = self._ahead
        if ahead is None:
            raise NotController("this node is not the active controller")
        if ahead.last_offset - self.image.last_offset > MAX_UNCOMMITTED_RECORDS:
            raise NotController("too much waits for a majority of the voters")
        began = time.perf_counter_ns()
        decision = decide(ahead)
        if decision.records:
            self._append(ahead, decision.records)
        if self.on_decided is not None:
            self.on_decided((time.perf_counter_ns() - began) // 1000)
        if self.image.last_offset < ahead.last_offset:
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._answers.append((ahead.last_offset, answer))
            await answer
        return decision.response

    def _append(self, ahead: MetadataImage, records: Sequence[Message]) -> None:
        """Apply records ahead of their commit, then append them; records that make no sense are not appended.

        Raises UnknownServerError, KafkaStorageError or NotController, with nothing changed.
        """
        assert self._epoch_start is not None
        epoch, delta = self._epoch_start[0], MetadataDelta()
        try:
            for record in records:
                ahead.apply(record, delta)
            first, appended = self._quorum.append(epoch, records)
        except (ValueError, OSError, NotController) as problem:
            self._begin_ahead(epoch)
            if isinstance(problem, OSError):
                text = f"the metadata log can't be written: {problem.strerror}"
                raise KafkaStorageError(text) from problem
            if isinstance(problem, ValueError):
                log.error("a decision on the metadata makes no sense reason=%s", problem)
                raise UnknownServerError("the controller came to a decision that makes no sense") from problem
            raise
        ahead.last_offset, ahead.last_epoch = first + len(appended) - 1, epoch
        self._appended.append(_Appended(first, ahead.last_offset + 1, epoch, appended))

    def _begin_ahead(self, epoch: int) -> MetadataImage:
        """The image with everything appended."""
        ahead, delta = self.image.copy(), MetadataDelta()
        for appended in self._appended:
            for record in appended.records:
                ahead.apply(record, delta)
        ahead.last_offset, ahead.last_epoch = self._log.end_offset - 1, epoch
        self._ahead = ahead
        return ahead

    async def wait_for(self, offset: int) -> None:
        """Wait until the record at `offset` is applied. Raises NotController when this node stops."""
        if self.image.last_offset >= offset:
            return
        if self._closed or self._failure is not None:
            raise NotController("this node follows the metadata no more")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waited += 1
        heapq.heappush(self._waiting, (offset, self._waited, waiter))
        await waiter

    # -- told by the quorum ---------------------------------------------------------------------------

    def on_became(self, role: Role, epoch: int, leader_id: int) -> None:
        """This node's role, its epoch or the leader has changed."""
        if self._epoch_start is not None and (role is not Role.LEADER or self._epoch_start[0] != epoch):
            self._resign("this node does not lead the metadata any more")
        self._progress.set()

    def on_controls_appended(self, epoch: int, first_offset: int, end_offset: int) -> None:
        """This leader wrote control records; those of a new epoch are its beginning."""
        self._appended.append(_Appended(first_offset, end_offset, epoch, ()))
        if self._epoch_start is None:
            self._epoch_start = (epoch, first_offset)
            self._activate_if_due()
        elif self._ahead is not None:
            self._ahead.last_offset = end_offset - 1

    def on_commit(self, high_watermark: int) -> None:
        """Everything below is committed."""
        self._committed = max(self._committed, high_watermark)
        self._catch_up()

    def on_snapshot(self, snapshot: SnapshotId, content: SnapshotContent) -> None:
        """The log begins at the end of a leader's snapshot: its image is made in a thread, and taken over."""
        if self._loading is not None:
            self._loading.cancel()
        self._committed = max(self._committed, snapshot.end_offset)
        self._loading = start_task(self._spawn, "metadata-load", self._load(snapshot, content))

    def on_failure(self, failure: BaseException) -> None:
        """The quorum has failed on this node: nothing more will be committed here."""
        self._failure = failure
        self._resign("the controller has stopped")
        self._wake_all(NotController("the metadata log has failed"))

    # -- active ---------------------------------------------------------------------------------------

    def _activate_if_due(self) -> None:
        if self._epoch_start is None or self._ahead is not None or self._closed or self._loading is not None:
            return
        epoch, first_offset = self._epoch_start
        needed = first_offset - 1 if self._quorum.alone else first_offset
        # The epoch may be lost already, and this node about to hear of it.
        if self.image.last_offset < needed or not self._quorum.leads(epoch):
            return
        ahead = self._begin_ahead(epoch)
        if ahead.in_transaction:
            log.info("the metadata transaction of a controller that is gone is aborted")
            self._append(ahead, [AbortTransactionRecord(reason="the controller that began it is gone")])
        if METADATA_VERSION not in ahead.features:
            self._append(ahead, self._first_records())
        log.info("active controller epoch=%d", epoch)
        idle_ms = self._config[broker_settings.METADATA_MAX_IDLE_INTERVAL_MS]
        # A node alone has no other one to show that the metadata lives, and each record would cost a sync.
        if idle_ms > 0 and not self._quorum.alone:
            self._idle = start_task(self._spawn, "metadata-no-op", self._write_no_ops(idle_ms / 1000))
        for on_active, _ in self._leadership_listeners:
            on_active(epoch)

    def _first_records(self) -> list[Message]:
        min_insync_replicas = self._config[broker_settings.MIN_INSYNC_REPLICAS]
        return [
            BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION),
            *bootstrap_records(self._log.directory.parent),
            # Eligible leader replicas (KIP-966) need one number for the whole cluster.
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            ),
            EndTransactionRecord(),
        ]

    async def _write_no_ops(self, interval_seconds: float) -> None:
        """KIP-835: a record now and then, so that the high watermark moves while the metadata is well."""
        while True:
            before = self._log.end_offset
            await asyncio.sleep(interval_seconds)
            if self._ahead is None:
                return
            if self._log.end_offset == before:
                with contextlib.suppress(KafkaStorageError, NotController):
                    self._append(self._ahead, [NoOpRecord()])

    def _resign(self, reason: str) -> None:
        """This node is the active controller, or the leader, no more."""
        was_active = self._ahead is not None
        self._ahead = self._epoch_start = None
        self._appended.clear()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        answers, self._answers = self._answers, deque()
        for _, answer in answers:
            if not answer.done():
                answer.set_exception(NotController(reason))
        if was_active:
            for _, on_inactive in self._leadership_listeners:
                on_inactive()

    # -- following ------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Apply the committed records, some in each turn of the loop, and tell the listeners."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None
        if self._loading is not None or self._closed or self._failure is not None:
            return
        delta = MetadataDelta()
        image, before = self.image, self.image.last_offset
        left = APPLIED_AT_ONCE
        waits = False
        while left > 0 and not waits and image.last_offset + 1 < self._committed:
            following = self._appended[0] if self._appended else None
            if following is None or image.last_offset + 1 < following.first:
                stop = self._committed if following is None else min(self._committed, following.first)
                applied = self._read_log(stop, delta, left)
                waits = applied == 0
                left -= applied
            elif following.end <= self._committed:
                self._appended.popleft()
                _apply(image, following.records, following.end - 1, following.epoch, delta)
                left -= following.end - following.first
            else:
                waits = True
        if image.last_offset == before:
            return
        self.records_applied += image.last_offset - before
        if not waits and image.last_offset + 1 < self._committed:
            self._catching_up = asyncio.get_running_loop().call_soon(self._catch_up)
        self._tell(delta)

    def _read_log(self, stop: int, delta: MetadataDelta, at_most: int) -> int:
        """Apply batches that end at or below `stop`, until `at_most` records are applied.

        Returns their number.
        """
        image = self.image
        first = image.last_offset + 1
        for header, records in self._log.batches(first, stop):
            try:
                _apply(image, records, header.last_offset, header.partition_leader_epoch, delta)
            except ValueError as error:
                raise LogDirectoryError(
                    f"the metadata log {self._log.directory} makes no sense at offset {header.base_offset}: "
                    f"{error}"
                ) from error
            if image.last_offset + 1 - first >= at_most:
                break
        return image.last_offset + 1 - first

    def _tell(self, delta: MetadataDelta) -> None:
        """`image` has changed: tell the listeners, then the callers that wait for an offset."""
        if delta.broker_configs_changed:
            self._config.follow(self.image)
        if not delta.empty:
            for listener in self._listeners:
                listener(delta)
        applied = self.image.last_offset
        while self._answers and self._answers[0][0] <= applied:
            _done(self._answers.popleft()[1])
        while self._waiting and self._waiting[0][0] <= applied:
            _done(heapq.heappop(self._waiting)[2])
        self._progress.set()
        self._activate_if_due()
        self._snapshot_if_due()

    def _wake_all(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
        self._progress.set()

    async def _load(self, snapshot: SnapshotId, content: SnapshotContent) -> None:
        new = await asyncio.to_thread(_image_of, self._quorum, snapshot, content)
        self._loading = None
        delta = image_delta(self.image, new)
        self._take_over(new)
        self._tell(delta)
        self._catch_up()

    def _take_over(self, new: MetadataImage) -> None:
        """The image gets the content of `new`, and stays the object that others hold."""
        for name in MetadataImage.__dataclass_fields__:
            setattr(self.image, name, getattr(new, name))

    # -- snapshots ------------------------------------------------------------------------------------

    def _snapshot_if_due(self) -> None:
        if self._snapshotting is not None or self._closed or not self._log.snapshot_due(self._now_ms()):
            return
        latest = self._log.latest_snapshot
        # Half a transaction can't be in a snapshot: it may still be aborted.
        if self.image.in_transaction or (latest is not None and latest.end_offset > self.image.last_offset):
            return
        self._snapshotting = start_task(self._spawn, "metadata-snapshot", self._write_snapshot())

    async def _write_snapshot(self) -> None:
        """Write a snapshot of everything applied, then drop what it replaces."""
        image, now_ms = self.image.copy(), self._now_ms()
        snapshot = SnapshotId(image.last_offset + 1, image.last_epoch)
        self._log.begin_snapshot(now_ms)
        voters = self._quorum.voters_at(snapshot.end_offset)
        kraft_version = self._quorum.kraft_version_at(snapshot.end_offset)

        def write() -> None:
            self._log.write_snapshot(
                snapshot, image_records(image), now_ms, voters=voters, kraft_version=kraft_version
            )

        try:
            await asyncio.to_thread(write)
            self._log.checkpoint_recovery_point()
            self._log.snapshot_written(now_ms)
            self._quorum.snapshot_written()
            self.snapshots_written += 1
            log.info("metadata snapshot written file=%s", snapshot.file_name)
        except OSError as error:  # the log has everything: the next snapshot may do better
            log.warning("metadata snapshot failed file=%s error=%s", snapshot.file_name, error)
        finally:
            self._snapshotting = None


def _apply(
    image: MetadataImage, records: Sequence[Message], last_offset: int, epoch: int, delta: MetadataDelta
) -> None:
    for record in records:
        image.apply(record, delta)
    image.last_offset, image.last_epoch = last_offset, epoch


def _image_of(quorum: MetadataQuorum, snapshot: SnapshotId, content: SnapshotContent) -> MetadataImage:
    """The image that a snapshot holds. Raises LogDirectoryError."""
    image, delta = MetadataImage(), MetadataDelta()
    try:
        _apply(image, content.records, snapshot.end_offset - 1, snapshot.epoch, delta)
    except ValueError as error:
        raise LogDirectoryError(
            f"snapshot {quorum.log.directory / snapshot.file_name} makes no sense: {error}"
        ) from error
    return image


def _done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
