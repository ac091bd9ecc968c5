"""The share coordinator: the state machine of one partition of `__share_group_state` (KIP-932).

Theory of operation. For each share partition the coordinator keeps the last state that the leader wrote, so
that another leader can go on from there. Requests name one share partition (responses.split). As in every
coordinator, a change is appended, then replayed, then answered; later requests for the same share partition
wait meanwhile.

Two epochs fence outdated writers. The state epoch is raised by the group coordinator when it initialises the
state anew (a reset of offsets); a write with an older one is FENCED_STATE_EPOCH. The leader epoch is that of
the topic's partition: the read with which a leader begins records it, and a write with an older one is
FENCED_LEADER_EPOCH.

A change is a ShareUpdate, or a ShareSnapshot of the whole after `updates_per_snapshot` updates. Share
partitions with few writes (cold ones) get a snapshot by age, so that the log before it can be deleted: from
time to time a `Prune` says up to which offset.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Loaded,
    Moment,
    Note,
    ProducerStamp,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.outbox import Outbox, answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.coordination.turns import Turns
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.pruning import SnapshotOffsets
from ottla.core.share.responses import (
    StateRequest,
    key_of,
    refusal,
    result,
    state_result,
    summary_result,
)
from ottla.core.share.state_batches import NO_OFFSET, StateBatch, combine
from ottla.core.share.state_records import (
    NO_EPOCH,
    UNKNOWN_COUNT,
    ShareState,
    snapshot_record,
    state_of_snapshot,
    tombstone_record,
    update_record,
    updated,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.protocol.records.share_snapshot_key import ShareSnapshotKey
from ottla.protocol.records.share_snapshot_value import ShareSnapshotValue
from ottla.protocol.records.share_update_key import ShareUpdateKey
from ottla.protocol.records.share_update_value import ShareUpdateValue
from ottla.protocol.schema import Message

NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
NO_STATE_TO_READ = "The state of this share partition was never initialized, so there is nothing to read."
NO_STATE_TO_WRITE = "The state of this share partition was never initialized, so it cannot be written."


@dataclass(frozen=True, slots=True)
class ShareCoordinatorSettings:
    """Kafka's settings share.coordinator.*; units are in the names."""

    updates_per_snapshot: int = 500  # snapshot.update.records.per.snapshot
    write_timeout_ms: int = 5_000
    cold_snapshot_interval_ms: int = 300_000  # cold.partition.snapshot.interval.ms
    prune_interval_ms: int = 300_000  # state.topic.prune.interval.ms


@dataclass(frozen=True, slots=True)
class TopicIdsDeleted:
    """These topics were deleted, so the states of their share partitions are deleted too."""

    at: Moment
    topic_ids: frozenset[uuid.UUID]


@dataclass(frozen=True, slots=True)
class Prune:
    """The records before `offset` of the shard's partition are no longer needed: delete them."""

    offset: int


Event: TypeAlias = RequestReceived | Tick | AppendDone | AppendFailed | TopicIdsDeleted | Loaded | Resigned
Effect: TypeAlias = Reply | Append | Note | Prune
PartitionCount = Callable[[uuid.UUID], int]
"""Gives the number of partitions of the topic with an id; 0 if there is no such topic."""


@dataclass(slots=True)
class StoredState:
    """A share partition's state and the coordinator's own facts about it."""

    state: ShareState
    leader_epoch: int
    """The highest leader epoch ever seen, which fences; the state epoch below is the highest too."""
    state_epoch: int
    update_count: int = 0
    """The number of updates since the last snapshot that was written because of their number."""


class ShareCoordinatorShard:
    """One partition's share states. Single-threaded; once it is loaded, all events go through `step`."""

    def __init__(self, settings: ShareCoordinatorSettings, partition_count: PartitionCount) -> None:
        self._settings = settings
        self._partition_count = partition_count
        self._outbox = Outbox(settings.write_timeout_ms, refusal)
        self._turns = Turns(self._outbox)
        self._stored: dict[SharePartitionKey, StoredState] = {}
        self._snapshot_offsets = SnapshotOffsets()
        self._prunes: list[Prune] = []

    @property
    def states(self) -> dict[SharePartitionKey, ShareState]:
        """The states in the log."""
        return {key: stored.state for key, stored in self._stored.items()}

    def next_wake_ms(self) -> int | None:
        """The time of the next `Tick` at the latest; None if nothing is due."""
        return self._outbox.timers.next_wake_ms()

    def replay(self, record: CoordinatorRecord, _: ProducerStamp | None = None) -> None:
        """Apply one record of the log, in the log's order."""
        self._replay(record, record.offset)

    def replay_transaction_end(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """This topic has no transactions."""

    def step(self, event: Event) -> list[Effect]:
        """Handle one event; return the effects."""
        self._outbox.now = event.at
        match event:
            case RequestReceived():
                self._outbox.open(event)
                request = cast(StateRequest, event.request)
                self._turns.run(key_of(request).coordinator_key, lambda: self._handle(event, request))
            case Tick():
                pass
            case AppendDone():
                self._append_done(event)
            case AppendFailed():
                self._append_failed(event)
            case TopicIdsDeleted():
                self._topics_deleted(event.topic_ids)
            case Loaded():
                self._outbox.set_timer(TimerKey("prune"), self._settings.prune_interval_ms)
                self._outbox.set_timer(TimerKey("cold"), self._settings.cold_snapshot_interval_ms)
            case Resigned():
                self._outbox.reply_all(ErrorCode.NOT_COORDINATOR)
                return list(self._outbox.take_effects())
        self._run_timers()
        prunes, self._prunes = self._prunes, []
        return [*self._outbox.take_effects(), *prunes]

    # Requests

    def _handle(self, event: RequestReceived, request: StateRequest) -> None:
        if not self._outbox.is_open(event.request_id):
            return  # it was answered while it waited for its turn
        key = key_of(request)
        stored = self._stored.get(key)
        match request:
            case ReadShareGroupStateRequest():
                self._read(event.request_id, key, request, stored)
            case WriteShareGroupStateRequest():
                self._write(event.request_id, key, request, stored)
            case ReadShareGroupStateSummaryRequest():
                refused = self._check_topic(key)
                state = stored.state if stored is not None else None
                self._outbox.reply(
                    event.request_id, refused(request) if refused else summary_result(request, state)
                )
            case InitializeShareGroupStateRequest():
                self._initialize(event.request_id, key, request, stored)
            case DeleteShareGroupStateRequest():
                refused = self._check_topic(key)
                if refused or stored is None:
                    self._outbox.reply(event.request_id, refused(request) if refused else result(request))
                else:
                    self._append(event.request_id, key, request, tombstone_record(key), result(request))
            case _:
                raise TypeError(f"{type(event.request).__name__} is not a request to a share coordinator")

    def _read(
        self,
        request_id: int,
        key: SharePartitionKey,
        request: ReadShareGroupStateRequest,
        stored: StoredState | None,
    ) -> None:
        leader_epoch = request.topics[0].partitions[0].leader_epoch
        refused: Refused | None
        if key.partition < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST)
        elif leader_epoch < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
        elif stored is None:
            refused = Refused(ErrorCode.INVALID_REQUEST, NO_STATE_TO_READ)
        elif stored.leader_epoch > leader_epoch:
            refused = Refused(ErrorCode.FENCED_LEADER_EPOCH)
        else:
            refused = self._check_topic(key)
        if refused or stored is None:
            assert refused is not None
            self._outbox.reply(request_id, refused(request))
            return
        state = stored.state
        answer = state_result(request, state)
        if leader_epoch == stored.leader_epoch:
            self._outbox.reply(request_id, answer)
            return
        change = replace(state, leader_epoch=leader_epoch, batches=())
        self._append(request_id, key, request, self._changed(key, stored, change), answer)

    def _write(
        self,
        request_id: int,
        key: SharePartitionKey,
        request: WriteShareGroupStateRequest,
        stored: StoredState | None,
    ) -> None:
        data = request.topics[0].partitions[0]
        refused: Refused | None
        if key.partition < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST)
        elif data.leader_epoch < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
        elif data.state_epoch < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
        elif stored is None:
            refused = Refused(ErrorCode.INVALID_REQUEST, NO_STATE_TO_WRITE)
        elif stored.leader_epoch > data.leader_epoch:
            refused = Refused(ErrorCode.FENCED_LEADER_EPOCH)
        elif stored.state_epoch > data.state_epoch:
            refused = Refused(ErrorCode.FENCED_STATE_EPOCH)
        else:
            refused = self._check_topic(key)
        if refused or stored is None:
            assert refused is not None
            self._outbox.reply(request_id, refused(request))
            return
        # A write that comes late takes neither the start nor its count of completed deliveries back.
        before, complete_count = stored.state, data.delivery_complete_count
        if data.start_offset == before.start_offset:
            complete_count = max(complete_count, before.delivery_complete_count)
        elif data.start_offset < before.start_offset:
            complete_count = before.delivery_complete_count
        change = replace(
            before,
            start_offset=max(data.start_offset, before.start_offset),
            delivery_complete_count=complete_count,
            batches=tuple(
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in data.state_batches
            ),
        )
        self._append(request_id, key, request, self._changed(key, stored, change), result(request))

    def _initialize(
        self,
        request_id: int,
        key: SharePartitionKey,
        request: InitializeShareGroupStateRequest,
        stored: StoredState | None,
    ) -> None:
        data = request.topics[0].partitions[0]
        refused: Refused | None
        if key.partition < 0:
            refused = Refused(ErrorCode.INVALID_REQUEST)
        elif stored is not None and data.state_epoch != NO_EPOCH and stored.state_epoch > data.state_epoch:
            refused = Refused(ErrorCode.FENCED_STATE_EPOCH)
        else:
            refused = self._check_topic(key)
        if refused:
            self._outbox.reply(request_id, refused(request))
            return
        now_ms = self._outbox.now.wall_ms
        state = ShareState(
            snapshot_epoch=0 if stored is None else stored.state.snapshot_epoch + 1,
            state_epoch=data.state_epoch,
            leader_epoch=0,
            start_offset=data.start_offset,
            delivery_complete_count=UNKNOWN_COUNT if data.start_offset == NO_OFFSET else 0,
            batches=(),
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        self._append(request_id, key, request, snapshot_record(key, state), result(request))

    def _check_topic(self, key: SharePartitionKey) -> Refused | None:
        if key.partition < 0:
            return Refused(ErrorCode.INVALID_REQUEST)
        if self._partition_count(key.topic_id) <= key.partition:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def _changed(self, key: SharePartitionKey, stored: StoredState, change: ShareState) -> CoordinatorRecord:
        """The record of a change to a state: an update, or a snapshot after many updates."""
        state = stored.state
        if stored.update_count < self._settings.updates_per_snapshot:
            return update_record(
                key, replace(change, batches=combine((), change.batches, change.start_offset))
            )
        now_ms = self._outbox.now.wall_ms
        snapshot = replace(
            change,
            snapshot_epoch=state.snapshot_epoch + 1,
            batches=combine(state.batches, change.batches, change.start_offset),
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return snapshot_record(key, snapshot)

    # Appends and replay

    def _append(
        self,
        request_id: int,
        key: SharePartitionKey,
        request: StateRequest,
        record: CoordinatorRecord,
        answer: Message,
    ) -> None:
        self._turns.append(
            key.coordinator_key,
            (record,),
            lambda: self._outbox.reply(request_id, answer),
            lambda error: self._outbox.reply(request_id, refusal(request, answer_for(error))),
        )

    def _append_done(self, event: AppendDone) -> None:
        pending = self._outbox.take_append(event.append_id)
        for index, record in enumerate(pending.records):
            self._replay(record, event.base_offset + index)
        pending.succeed()

    def _append_failed(self, event: AppendFailed) -> None:
        pending = self._outbox.take_append(event.append_id)
        self._outbox.note(
            "append to the share state failed append_id=%d error=%s", event.append_id, event.error.name
        )
        pending.fail(event.error)

    def _replay(self, record: CoordinatorRecord, offset: int) -> None:
        match record.key, record.value:
            case ShareSnapshotKey() as snapshot, None:
                key = SharePartitionKey(snapshot.group_id, snapshot.topic_id, snapshot.partition)
                self._stored.pop(key, None)
                self._snapshot_offsets.on_snapshot(key, offset, is_tombstone=True)
            case ShareSnapshotKey() as snapshot, ShareSnapshotValue() as value:
                key = SharePartitionKey(snapshot.group_id, snapshot.topic_id, snapshot.partition)
                self._replay_snapshot(key, state_of_snapshot(value))
                self._snapshot_offsets.on_snapshot(key, offset, is_tombstone=False)
            case ShareUpdateKey() as update, ShareUpdateValue() as change:
                key = SharePartitionKey(update.group_id, update.topic_id, update.partition)
                stored = self._stored.get(key)
                state = updated(stored.state if stored else None, change)
                if stored is None:
                    stored = self._stored[key] = StoredState(state, state.leader_epoch, NO_EPOCH)
                stored.state = state
                stored.leader_epoch = max(stored.leader_epoch, change.leader_epoch)
                stored.update_count += 1

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareState) -> None:
        stored = self._stored.get(key)
        if stored is None:
            self._stored[key] = StoredState(state, state.leader_epoch, state.state_epoch)
            return
        stored.state = state
        stored.leader_epoch = max(stored.leader_epoch, state.leader_epoch)
        stored.state_epoch = max(stored.state_epoch, state.state_epoch)
        if stored.update_count >= self._settings.updates_per_snapshot:
            stored.update_count = 0

    # Background work

    def _run_timers(self) -> None:
        outbox = self._outbox
        while (timer := outbox.timers.pop_due(outbox.now.steady_ms)) is not None:
            match timer.kind:
                case "append":
                    outbox.on_append_timeout(timer.number)
                case "prune":
                    outbox.set_timer(TimerKey("prune"), self._settings.prune_interval_ms)
                    offset = self._snapshot_offsets.take_redundant_offset()
                    if offset is not None:
                        self._prunes.append(Prune(offset))
                case "cold":
                    outbox.set_timer(TimerKey("cold"), self._settings.cold_snapshot_interval_ms)
                    self._snapshot_cold()
                case _:
                    raise AssertionError(f"unknown timer {timer}")

    def _snapshot_cold(self) -> None:
        """Write snapshots of the cold share partitions, unless all states already are such snapshots."""
        if all(
            stored.state.create_timestamp_ms != stored.state.write_timestamp_ms
            for stored in self._stored.values()
        ):
            return
        now_ms = self._outbox.now.wall_ms
        oldest_ms = now_ms - self._settings.cold_snapshot_interval_ms
        for key, stored in self._stored.items():
            if stored.state.write_timestamp_ms <= oldest_ms:
                self._turns.run(key.coordinator_key, lambda key=key: self._write_cold(key))  # type: ignore[misc]

    def _write_cold(self, key: SharePartitionKey) -> None:
        stored = self._stored.get(key)
        if stored is None:
            return
        state = replace(
            stored.state,
            snapshot_epoch=stored.state.snapshot_epoch + 1,
            write_timestamp_ms=self._outbox.now.wall_ms,
        )
        self._append_in_background(key, snapshot_record(key, state))

    def _topics_deleted(self, topic_ids: Iterable[uuid.UUID]) -> None:
        gone = frozenset(topic_ids)
        for key in self._stored:
            if key.topic_id in gone:
                self._turns.run(key.coordinator_key, lambda key=key: self._forget(key))  # type: ignore[misc]

    def _forget(self, key: SharePartitionKey) -> None:
        if key in self._stored:
            self._append_in_background(key, tombstone_record(key))

    def _append_in_background(self, key: SharePartitionKey, record: CoordinatorRecord) -> None:
        """Append a record that no request waits for; if that fails, the next tick decides anew."""
        self._turns.append(key.coordinator_key, (record,), lambda: None, lambda error: None)


@dataclass(frozen=True, slots=True)
class Refused:
    """Carries the error of a refused request."""

    error: ErrorCode
    message: str | None = None

    def __call__(self, request: StateRequest) -> Message:
        return refusal(request, self.error, self.message)
