"""Runs one coordinator's shard: loads it from the log, feeds it requests and time, performs its effects.

Theory of operation. A shard (core/groups, core/transactions, core/share) decides, and never blocks; here are
its requests' futures, its one timer and its appends. One append is in flight at a time; records that are
decided meanwhile go into the next one, so they keep their order and a busy partition writes few, larger
batches. Records on behalf of a transaction go into batches of their producer. Nothing durable is kept here:
answers come after the append, so after a kill -9 the log has all records of every change that was answered.

When it is not certain how an append ended (an error that may come after the write), the shard starts again
from the log, which is certain; clients that waited are sent to find the coordinator anew.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Client,
    Loaded,
    Moment,
    Note,
    ProducerStamp,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.strays.naming import name_of, stray_test
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError, UnsupportedApiVersion
from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    NewRecord,
    Record,
    control_record_type,
)
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.coordinators.node import ShardNode

log = logging.getLogger("ottla.broker.coordinators")

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
    # Errors of a producer's transaction, raised before anything of it is written.
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors that an append raises before it writes."""


class CoordinatorShard(Protocol):
    """The state machine of one partition of a coordinator's topic, see core/coordination/api.py."""

    def step(self, event: Any) -> Sequence[Any]:
        """The effects of an event."""

    def next_wake_ms(self) -> int | None:
        """When to send a `Tick`, at the latest."""

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        """Take over one record of the log; `producer` is that of its transaction, if it has one."""

    def replay_transaction_end(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Records replayed for the producer's transaction count now, or never."""


@dataclass(frozen=True, slots=True)
class ShardFamily:
    """The differences between the shards of one coordinator and those of another."""

    coordinator: Coordinator
    """The coordinator that topic, keys and values belong to."""
    name: str
    """The plural of their contents, for the names of tasks and for logs: "groups"."""
    codec: Codec
    make: Callable[[Moment], CoordinatorShard]
    """A new shard with the settings of now, to replay the log into."""
    refuse: Callable[[Message, ErrorCode], Message]
    """Makes the answer to a request that holds nothing but an error."""
    replay_bytes: Callable[[Any, bytes, bytes, ProducerStamp | None], bool] | None = None
    """Replays a record of the commonest kind without decoding it first; returns False for other records."""
    perform: Callable[[ShardRunner, Any], None] | None = None
    """Performs effects that are not `Reply`, `Append` or `Note`."""
    needs_random_bits: frozenset[int] = frozenset()
    """The API keys whose requests need random bits."""
    rebalance_keys: Mapping[type[Message], str] = field(default_factory=dict)
    """The keys of records that begin a generation or epoch of a group, with the kind of the group."""
    rebalances: Counter[str] = field(default_factory=Counter)
    """The rebalances by kind of group, of all shards since the start."""
    ends_strays: bool = False
    """Whether a shard is loaded with strays (core/strays), to end what is open of them before they move."""

    @property
    def topic(self) -> str:
        return self.coordinator.value


class TransactionEnd(NamedTuple):
    """A transaction marker of the log, at `offset`."""

    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool


class Home(NamedTuple):
    """How a partition gets the records that an older ottla left in its counterpart, of `partition_count`."""

    partition_count: int
    bring: Callable[[ShardRunner], Awaitable[None]]
    """Awaited once, when the log is replayed and before anything is served."""


class ShardRunner:
    """One partition's shard with its timer, its appends and the requests that wait for it."""

    def __init__(
        self,
        node: ShardNode,
        family: ShardFamily,
        partition: int,
        leader_epoch: int,
        reload: Callable[[ShardRunner], None],
        home: Home | None = None,
        on_loaded: Callable[[float], None] = lambda _: None,
    ) -> None:
        """on_loaded: told the seconds that the load took."""
        self._on_loaded = on_loaded
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.serving = False
        """Whether requests are taken: the shard has all records of its names."""
        self.load_ended = asyncio.Event()
        """Set once the shard serves, and at the end of the runner."""
        self.load_began = asyncio.get_running_loop().time()
        self.resigned = False
        self.replayed = asyncio.Event()
        """Set once `strays` is complete, and at the end of the runner."""
        self.strays: dict[bytes, str] = {}
        """Keys of the log that belong in another partition, with their names; none once they have moved."""
        self._loading = True
        self._home = home
        self._is_stray = (
            None if home is None else stray_test(family.coordinator, partition, home.partition_count)
        )
        self._node = node
        self._family = family
        self._loop = asyncio.get_running_loop()
        self._reload = reload
        self._shard = family.make(self._now())
        self._told_while_loading: list[Callable[[Moment], Any]] = []
        self._next_request_id = 0
        self._answer: Message | None = None
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._appends: deque[Append] = deque()
        self._writing = False
        self._one_by_one = 0
        """How many of the next appends to write as batches of their own."""
        self._ends_while_writing: deque[TransactionEnd] = deque()
        self._loaded_to_offset = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def shard(self) -> CoordinatorShard:
        """The state machine."""
        return self._shard

    async def load(self) -> None:
        """Replay the partition, then serve. Damaged records are passed over, with a line in the log.

        Not before all of it is committed: an answer can't rest on records that another leader lacks then.
        """
        try:
            await self._node.internal_appends.until_committed(self._family.topic, self.partition)
        except KafkaError:
            return  # led by another broker: this shard resigns
        if self._has_resigned():
            return
        count = 0
        slice_end = self._loop.time() + LOADING_SLICE_SECONDS
        for header, records in self._node.internal_appends.iterate_batches(
            self._family.topic, self.partition
        ):
            self._replay_batch(header, records)
            self._loaded_to_offset = header.next_offset
            count += len(records)
            if self._loop.time() >= slice_end:
                await asyncio.sleep(0)
                if self._has_resigned():
                    return
                slice_end = self._loop.time() + LOADING_SLICE_SECONDS
        self.replayed.set()
        if self._family.ends_strays:
            self._start()
        if self._home is not None:
            await self._home.bring(self)
            if self._has_resigned():
                return
        if not self._family.ends_strays:
            self._start()
        self.serving = True
        self.load_ended.set()
        self._on_loaded(self._loop.time() - self.load_began)
        if count:
            log.info(
                "%s loaded partition=%d leader_epoch=%d records=%d",
                self._family.name,
                self.partition,
                self.leader_epoch,
                count,
            )

    def _start(self) -> None:
        """All of the log is replayed: the shard goes by its clocks from now on."""
        self._end_transactions(None)
        self._loading = False
        strays = frozenset(self.strays.values()) if self._family.ends_strays else frozenset[str]()
        self._step(Loaded(self._now(), strays))
        told, self._told_while_loading = self._told_while_loading, []
        for make_event in told:
            self._step(make_event(self._now()))

    def resign(self) -> None:
        """Answer all requests that wait, and do nothing more."""
        if self.resigned:
            return
        self._step(Resigned(self._now()))
        self.resigned = True
        self.replayed.set()
        self.load_ended.set()
        self._appends.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _has_resigned(self) -> bool:
        """Whether leadership has gone, and with it, perhaps, the log that is read here."""
        return self.resigned

    def request(
        self, request: Message, client: Client, random_bits: int = 0
    ) -> Message | asyncio.Future[Message]:
        """Give the shard a request: its answer, or a future of it."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self._step(RequestReceived(self._now(), request_id, request, client, random_bits))
        answer, self._answer = self._answer, None
        if answer is not None:
            return answer
        return self._waiting.setdefault(request_id, self._loop.create_future())

    def tell(self, make_event: Callable[[Moment], Any]) -> None:
        """Feed the shard an event of its own kind, once it is loaded; a no-op after its end."""
        if self._loading:
            self._told_while_loading.append(make_event)
        else:
            self._step(make_event(self._now()))

    def on_transaction_end(self, end: TransactionEnd) -> None:
        """A transaction marker was appended to the partition."""
        self._ends_while_writing.append(end)
        if not self._writing and not self._loading:
            self._end_transactions(None)

    # -- effects ------------------------------------------------------------------------------------

    def _now(self) -> Moment:
        return Moment(int(self._loop.time() * 1000), self._node.now_ms())

    def _step(self, event: Any) -> None:
        if self.resigned:
            return
        for effect in self._shard.step(event):
            self._perform(effect)
        self._set_timer()

    def _perform(self, effect: Any) -> None:
        match effect:
            case Reply(request_id, response):
                waiting = self._waiting.pop(request_id, None)
                if waiting is None:
                    self._answer = response
                elif not waiting.done():  # The client may have hung up.
                    waiting.set_result(response)
            case Append():
                self._appends.append(effect)
                kinds = self._family.rebalance_keys
                for record in effect.records:
                    kind = kinds.get(type(record.key))
                    if kind is not None and record.value is not None:
                        self._family.rebalances[kind] += 1
                if not self._writing:
                    self._writing = True
                    self._node.supervisor.spawn(f"write-{self._family.name}-{self.partition}", self._write())
            case Note(message, arguments):
                log.info(message, *arguments)
            case _:
                perform = self._family.perform
                assert perform is not None, f"nobody performs {effect}"
                perform(self, effect)

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

    def _replay_batch(self, header: BatchHeader, records: Sequence[Record]) -> None:
        if header.is_control:
            kind = control_record_type(records[0]) if records else None
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                self._shard.replay_transaction_end(
                    header.producer_id, header.producer_epoch, kind is ControlRecordType.COMMIT
                )
            return
        producer = None
        if header.is_transactional:
            producer = ProducerStamp(header.producer_id, header.producer_epoch)
        self._replay(records, producer)

    def replay(self, records: Sequence[NewRecord]) -> None:
        """Take over records that were appended to the partition, but not by the shard."""
        self._replay([Record(-1, each.timestamp, each.key, each.value) for each in records], None)

    def _replay(self, records: Sequence[Record], producer: ProducerStamp | None) -> None:
        replay_bytes = self._family.replay_bytes
        is_stray = self._is_stray
        for record in records:
            key, value = record.key, record.value
            if is_stray is not None and key is not None and is_stray(key):
                self._note_stray(key, value)
                if not self._family.ends_strays:
                    continue
            if (
                replay_bytes is not None
                and key is not None
                and value is not None
                and replay_bytes(self._shard, key, value, producer)
            ):
                continue
            decoded = decode_record(self._family.coordinator, record, self.partition)
            if decoded is not None:
                self._shard.replay(decoded, producer)

    def _note_stray(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.strays.pop(key, None)
        else:
            self.strays[key] = name_of(self._family.coordinator, key) or ""

    def _end_transactions(self, below_offset: int | None) -> None:
        """Replay the markers that came meanwhile, those before `below_offset` only, in the log's order."""
        ends = self._ends_while_writing
        while ends and (below_offset is None or ends[0].offset < below_offset):
            end = ends.popleft()
            if not self.resigned and end.offset >= self._loaded_to_offset:
                self._shard.replay_transaction_end(end.producer_id, end.producer_epoch, end.committed)

    async def _write(self) -> None:
        """Append the records that the shard has decided on, batch after batch, until none is left."""
        while self._appends and not self.resigned:
            batch = self._next_batch()
            timestamp = self._node.now_ms()
            records = [encode_record(record, timestamp) for append in batch for record in append.records]
            try:
                base_offset = await self._node.internal_appends.append_records(
                    self._family.topic,
                    self.partition,
                    records,
                    codec=self._family.codec,
                    producer=batch[0].producer,
                )
            except KafkaError as error:
                if error.code in TOO_LARGE and len(batch) > 1:
                    # One of them is refused; the others must not be refused with it.
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
            self._end_transactions(base_offset)
            for append in batch:
                self._step(AppendDone(self._now(), append.append_id, base_offset))
                base_offset += len(append.records)
        self._writing = False
        self._end_transactions(None)

    def _next_batch(self) -> list[Append]:
        """The appends of the next batch: all of one producer's transaction, or of none."""
        batch = [self._appends.popleft()]
        if self._one_by_one:
            self._one_by_one -= 1
            return batch
        count = len(batch[0].records)
        while (
            self._appends
            and self._appends[0].producer == batch[0].producer
            and count + len(self._appends[0].records) <= MAX_RECORDS_A_BATCH
        ):
            count += len(self._appends[0].records)
            batch.append(self._appends.popleft())
        return batch

    def _start_again(self, error: Exception) -> None:
        log.error(
            "append to %s failed, loading it again partition=%d: %s",
            self._family.topic,
            self.partition,
            error,
        )
        self._reload(self)


def random_bits(family: ShardFamily, api_key: int) -> int:
    """128 random bits if a request of that API needs them, else 0."""
    return uuid.uuid4().int if api_key in family.needs_random_bits else 0


def encode_record(record: CoordinatorRecord, timestamp: int) -> NewRecord:
    """A decision's record in the bytes of the log."""
    value = record.value
    return NewRecord(
        encode_coordinator_key(record.key),
        None if value is None else encode_coordinator_value(value, record.value_version),
        timestamp,
    )


def decode_record(coordinator: Coordinator, record: Record, partition: int) -> CoordinatorRecord | None:
    """A record of the log, or None for one that this version does not know or that is damaged."""
    where = coordinator.value
    if record.key is None:
        log.warning("record without a key topic=%s partition=%d offset=%d", where, partition, record.offset)
        return None
    try:
        key = decode_coordinator_key(coordinator, record.key)
        if record.value is None:
            return CoordinatorRecord(key, offset=record.offset)
        value = decode_coordinator_value(coordinator, key, record.value)
        return CoordinatorRecord(key, value, offset=record.offset)
    except UnsupportedApiVersion as problem:
        log.warning(
            "unknown record topic=%s partition=%d offset=%d: %s", where, partition, record.offset, problem
        )
    except ProtocolError as problem:
        log.error(
            "damaged record topic=%s partition=%d offset=%d: %s", where, partition, record.offset, problem
        )
    return None
