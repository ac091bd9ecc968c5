"""Runs one group shard: loads it from the log, feeds it requests and time, performs what it decides.

Theory of operation. `core.groups.Shard` decides, and never blocks; here are its requests' futures, its one
timer and its appends. One append is in flight at a time; what is decided meanwhile rides in the next one,
so the records keep their order and a busy partition writes few, larger batches. Nothing durable is kept
here: answers come after the append, so after a kill -9 the log has everything that was ever answered for.

When it is not certain how an append ended (an error that may come after the write), the shard starts
again from the log, which is certain; whoever waited is sent to find the coordinator anew.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Client,
    Loaded,
    Moment,
    Note,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.api import DeletedTopic, Effect, Event, TopicsDeleted
from ottla.core.groups.settings import GroupSettings, Settings
from ottla.core.groups.shard import Shard
from ottla.core.metadata import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError, UnsupportedApiVersion
from ottla.protocol.record_batch import NewRecord, Record
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.schema import ZERO_UUID, Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker.groups")

GROUP_TOPIC = Coordinator.GROUP.value
MAX_RECORDS_A_BATCH = 2_000
"""How many records of different decisions are written as one batch; a single decision may have more."""
LOADING_SLICE_SECONDS = 0.01
"""How long loading may keep the event loop to itself."""
TIMER_SLACK_SECONDS = 0.001
"""Wake a little late rather than a little early, and do it once."""

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
NOTHING_WAS_WRITTEN = TOO_LARGE | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Errors that an append raises before it writes."""


class ShardRunner:
    """One partition's shard with its timer, its appends and the requests that wait for it."""

    def __init__(
        self, broker: Broker, partition: int, leader_epoch: int, reload: Callable[[ShardRunner], None]
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.loading = True
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._reload = reload
        self._codec = Codec(broker.config[broker_settings.OFFSETS_TOPIC_COMPRESSION_CODEC])
        self._shard = Shard(Settings(group_settings(broker)))
        self._resigned = False
        self._deleted_while_loading: list[str] = []
        self._next_request_id = 0
        self._answer: Message | None = None
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._appends: deque[Append] = deque()
        self._writing = False
        self._one_by_one = 0
        """How many of the next appends to write as batches of their own."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    async def load(self) -> None:
        """Replay the partition, then serve. Damaged records are passed over, with a line in the log."""
        if self._has_resigned():
            return
        count = 0
        slice_end = self._loop.time() + LOADING_SLICE_SECONDS
        for records in self._broker.replicas.iterate_records(GROUP_TOPIC, self.partition):
            for record in records:
                decoded = decode_record(record, self.partition)
                if decoded is not None:
                    self._shard.replay(decoded)
            count += len(records)
            if self._loop.time() >= slice_end:
                await asyncio.sleep(0)
                if self._has_resigned():
                    return
                slice_end = self._loop.time() + LOADING_SLICE_SECONDS
        self.loading = False
        self._step(Loaded(self._now()))
        self.topics_deleted(self._deleted_while_loading)
        if count:
            log.info(
                "groups loaded partition=%d leader_epoch=%d records=%d groups=%d",
                self.partition,
                self.leader_epoch,
                count,
                len(self._shard.groups),
            )

    def resign(self) -> None:
        """Answer everybody who waits, and do nothing more."""
        if self._resigned:
            return
        self._step(Resigned(self._now()))
        self._resigned = True
        self._appends.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _has_resigned(self) -> bool:
        """Whether leadership has gone, and with it, perhaps, the log that is read here."""
        return self._resigned

    def request(self, request: Message, context: RequestContext) -> Message | Awaitable[Message]:
        """Give the shard a request: its answer, or a future of it."""
        request_id = self._next_request_id
        self._next_request_id += 1
        client = Client(context.client_id or "", f"/{context.client_host}", context.api_version)
        random_bits = uuid.uuid4().int if context.api_key == ApiKey.JOIN_GROUP else 0
        self._step(RequestReceived(self._now(), request_id, request, client, random_bits))
        answer, self._answer = self._answer, None
        if answer is not None:
            return answer
        return self._waiting.setdefault(request_id, self._loop.create_future())

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Drop the offsets committed for these topics, once the shard is loaded."""
        if self.loading:
            self._deleted_while_loading += names
        elif names:
            topics = tuple(DeletedTopic(name, ZERO_UUID) for name in names)
            self._step(TopicsDeleted(self._now(), topics))

    # -- effects ------------------------------------------------------------------------------------

    def _now(self) -> Moment:
        return Moment(int(self._loop.time() * 1000), self._broker.now_ms())

    def _step(self, event: Event) -> None:
        if self._resigned:
            return
        for effect in self._shard.step(event):
            self._perform(effect)
        self._set_timer()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Reply(request_id, response):
                waiting = self._waiting.pop(request_id, None)
                if waiting is None:
                    self._answer = response
                elif not waiting.done():  # The client may have hung up.
                    waiting.set_result(response)
            case Append():
                self._appends.append(effect)
                if not self._writing:
                    self._writing = True
                    self._broker.supervisor.spawn(f"write-groups-{self.partition}", self._write())
            case Note(message, arguments):
                log.info(message, *arguments)

    def _set_timer(self) -> None:
        wake_ms = self._shard.next_wake_ms()
        if wake_ms is None or (self._timer is not None and self._timer_ms <= wake_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = wake_ms
        self._timer = self._loop.call_at(wake_ms / 1000 + TIMER_SLACK_SECONDS, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._step(Tick(self._now()))

    # -- the log ------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Append what the shard has decided, batch after batch, until nothing is left."""
        while self._appends and not self._resigned:
            batch = self._next_batch()
            timestamp = self._broker.now_ms()
            records = [encode_record(record, timestamp) for append in batch for record in append.records]
            try:
                base_offset = await self._broker.replicas.append_records(
                    GROUP_TOPIC, self.partition, records, codec=self._codec
                )
            except KafkaError as error:
                if error.code in TOO_LARGE and len(batch) > 1:
                    # One of them is the culprit; the others must not suffer for it.
                    self._appends.extendleft(reversed(batch))
                    self._one_by_one = len(batch)
                    continue
                if error.code not in NOTHING_WAS_WRITTEN:
                    self._start_again(error)
                    return
                for append in batch:
                    self._step(AppendFailed(self._now(), append.append_id, error.code))
                continue
            except OSError as error:
                self._start_again(error)
                return
            for append in batch:
                self._step(AppendDone(self._now(), append.append_id, base_offset))
                base_offset += len(append.records)
        self._writing = False

    def _next_batch(self) -> list[Append]:
        batch = [self._appends.popleft()]
        if self._one_by_one:
            self._one_by_one -= 1
            return batch
        count = len(batch[0].records)
        while self._appends and count + len(self._appends[0].records) <= MAX_RECORDS_A_BATCH:
            count += len(self._appends[0].records)
            batch.append(self._appends.popleft())
        return batch

    def _start_again(self, error: Exception) -> None:
        log.error("append to the group log failed, loading it again partition=%d: %s", self.partition, error)
        self._reload(self)


def group_settings(broker: Broker) -> GroupSettings:
    """The broker's settings for groups."""
    config = broker.config
    return GroupSettings(
        initial_rebalance_delay_ms=config[broker_settings.GROUP_INITIAL_REBALANCE_DELAY_MS],
        min_session_timeout_ms=config[broker_settings.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[broker_settings.GROUP_MAX_SESSION_TIMEOUT_MS],
        max_size=config[broker_settings.GROUP_MAX_SIZE],
        offset_metadata_max_bytes=config[broker_settings.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=config[broker_settings.OFFSETS_RETENTION_MINUTES] * 60_000,
        offsets_retention_check_interval_ms=config[broker_settings.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        commit_timeout_ms=config[broker_settings.OFFSETS_COMMIT_TIMEOUT_MS],
    )


def encode_record(record: CoordinatorRecord, timestamp: int) -> NewRecord:
    """A decision's record in the bytes of the log."""
    value = record.value
    return NewRecord(
        encode_coordinator_key(record.key),
        None if value is None else encode_coordinator_value(value, record.value_version),
        timestamp,
    )


def decode_record(record: Record, partition: int) -> CoordinatorRecord | None:
    """A record of the log, or None for one that this version does not know or that is damaged."""
    if record.key is None:
        log.warning("record without a key partition=%d offset=%d", partition, record.offset)
        return None
    try:
        key = decode_coordinator_key(Coordinator.GROUP, record.key)
        if record.value is None:
            return CoordinatorRecord(key)
        return CoordinatorRecord(key, decode_coordinator_value(Coordinator.GROUP, key, record.value))
    except UnsupportedApiVersion as problem:
        log.warning("unknown record partition=%d offset=%d: %s", partition, record.offset, problem)
    except ProtocolError as problem:
        log.error("damaged record partition=%d offset=%d: %s", partition, record.offset, problem)
    return None
