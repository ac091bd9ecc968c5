"""A group shard under a test's control: its clock, its log and the ends of its appends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

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
from ottla.core.groups.api import DeletedTopic, Event, TopicsChanged, TopicsDeleted
from ottla.core.groups.settings import GroupSettings, Settings
from ottla.core.groups.shard import Shard
from ottla.core.groups.topics import NO_TOPICS, TopicDescription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import ZERO_UUID, Message

WALL_MINUS_STEADY_MS = 1_700_000_000_000


class LoggedRecord(NamedTuple):
    """A record of the log, in a batch of `producer`'s transaction if there is one."""

    record: CoordinatorRecord
    producer: ProducerStamp | None = None


class TransactionEnd(NamedTuple):
    """A transaction marker of the log."""

    producer: ProducerStamp
    committed: bool


LogEntry: TypeAlias = LoggedRecord | TransactionEnd


class ShardDriver:
    """Feeds a shard events and keeps its effects. Appends succeed at once unless `hold_appends` is set."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.now_ms = 0
        self.entries: list[LogEntry] = []
        """The log."""
        self.requests: dict[int, Message] = {}
        self.replies: dict[int, Message] = {}
        self.answered: list[int] = []
        """Request ids in the order of their answers."""
        self.held: deque[Append] = deque()
        self.hold_appends = False
        self.topics = NO_TOPICS
        self.other_effects: list[object] = []
        """Effects that only some kinds of groups have."""
        self._next_request_id = 0
        self.shard = self._loaded_shard()

    @property
    def log(self) -> list[CoordinatorRecord]:
        """The records of the log."""
        return [entry.record for entry in self.entries if isinstance(entry, LoggedRecord)]

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms + WALL_MINUS_STEADY_MS)

    def send(
        self, request: Message, version: int, client_id: str = "client", client_host: str = "/127.0.0.1"
    ) -> int:
        """Give the shard a request; its answer, now or later, is in `replies` under the returned id."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self.requests[request_id] = request
        client = Client(client_id, client_host, version)
        # The request id doubles as the random bits, so that member ids are told apart and repeat.
        self.step(RequestReceived(self.now, request_id, request, client, request_id))
        return request_id

    def advance(self, milliseconds: int) -> None:
        """Let time pass, waking the shard whenever it wants to be woken."""
        end_ms = self.now_ms + milliseconds
        while (wake_ms := self.shard.next_wake_ms()) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.step(Tick(self.now))
        self.now_ms = end_ms

    def append_done(self) -> None:
        """The oldest held append is committed."""
        append = self.held.popleft()
        base_offset = len(self.entries)
        self.entries += [LoggedRecord(record, append.producer) for record in append.records]
        self.step(AppendDone(self.now, append.append_id, base_offset))

    def append_failed(self, error: ErrorCode) -> None:
        """The oldest held append was refused."""
        self.step(AppendFailed(self.now, self.held.popleft().append_id, error))

    def transaction_ends(self, producer: ProducerStamp, committed: bool) -> None:
        """The marker of a transaction is written."""
        self.entries.append(TransactionEnd(producer, committed))
        self.shard.replay_transaction_end(*producer, committed)

    def topic_deleted(self, name: str) -> None:
        topic = self.topics.named(name)
        if topic is not None:
            self.change_topics({name: None})
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        self.step(TopicsDeleted(self.now, (DeletedTopic(name, topic_id),)))

    def change_topics(self, changed: Mapping[str, TopicDescription | None]) -> None:
        """Topics are new or different, or gone (None)."""
        self.topics = self.topics.with_changes(changed)
        self.step(TopicsChanged(self.now, self.topics, frozenset(changed)))

    def resign(self) -> None:
        """Leadership is lost; appends that were held are lost with it."""
        self.step(Resigned(self.now))
        self.held.clear()

    def reload(self) -> None:
        """A new leader loads the log."""
        self.resign()
        self.shard = self._loaded_shard()

    def reloaded_copy(self, entries: Iterable[LogEntry] | None = None) -> Shard:
        """The state of a new leader that loads the log, or these entries in its place."""
        return self._loaded_shard(entries)

    def waiting(self) -> list[int]:
        """The requests without an answer."""
        return [request_id for request_id in self.requests if request_id not in self.replies]

    def step(self, event: Event) -> None:
        for effect in self.shard.step(event):
            match effect:
                case Reply(request_id, response):
                    assert request_id in self.requests, "an answer to nobody"
                    assert request_id not in self.replies, "a second answer to one request"
                    self.replies[request_id] = response
                    self.answered.append(request_id)
                case Append():
                    self.held.append(effect)
                case Note():
                    pass
                case _:
                    self.other_effects.append(effect)
        if not self.hold_appends:
            while self.held:
                self.append_done()

    def _loaded_shard(self, entries: Iterable[LogEntry] | None = None) -> Shard:
        shard = Shard(Settings(self.settings))
        shard.step(TopicsChanged(self.now, self.topics, frozenset(self.topics.names())))
        for entry in self.entries if entries is None else entries:
            match entry:
                case LoggedRecord(record, producer):
                    shard.replay(record, producer)
                case TransactionEnd(producer, committed):
                    shard.replay_transaction_end(*producer, committed)
        shard.step(Loaded(self.now))
        return shard
