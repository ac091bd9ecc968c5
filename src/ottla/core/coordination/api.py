"""The events and effects that all coordinators' shards share.

The shell turns a socket's request into a `RequestReceived`, performs every effect of the list that `step`
returns, in order, and reports the end of each `Append`. It also feeds a `Tick` no later than the shard's
`next_wake_ms()`. Appends of one shard end in the order in which they were requested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message


class Moment(NamedTuple):
    """The time of an event, by two clocks.

    Deadlines use the steady one: a laptop that slept, or a wall clock that was set, must not end every
    session. Timestamps in records use the wall clock.
    """

    steady_ms: int
    wall_ms: int


class TopicPermits(Protocol):
    """What a client may do with topics that it did not name itself."""

    def may_describe(self, topic: str) -> bool:
        """Whether the client may know of the topic."""
        ...

    def may_create(self, topic: str) -> bool:
        """Whether the topic may be made for the client."""
        ...


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request, as the coordinator stores and describes it."""

    client_id: str
    client_host: str
    api_version: int
    permits: TopicPermits | None = field(default=None, compare=False, repr=False)
    """What it may do with topics; None if it may do everything."""


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A request for this shard. `random_bits` (128 of them) are for requests that need a new id."""

    at: Moment
    request_id: int
    request: Message
    client: Client
    random_bits: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: run the timers that are due."""

    at: Moment


@dataclass(frozen=True, slots=True)
class AppendDone:
    """The records of an `Append` are in the log and below the high watermark, from `base_offset` on."""

    at: Moment
    append_id: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """None of the records of an `Append` were written. (If that is not certain, reload the shard.)"""

    at: Moment
    append_id: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Loaded:
    """Every record of the log has been replayed: start the timers and serve requests.

    `strays` are names in it that belong to another partition (core/strays). They are named only to shards
    that have to end something before the strays are moved.
    """

    at: Moment
    strays: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Resigned:
    """This broker no longer leads the partition: answer the open requests. It is the shard's last event."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request. Every request is answered exactly once."""

    request_id: int
    response: Message


class ProducerStamp(NamedTuple):
    """The producer in whose transaction records are appended: they count when it commits."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records to the shard's partition, all or none, and report the end with `append_id`.

    With a `producer` they go into a transactional batch of that producer.
    """

    append_id: int
    records: tuple[CoordinatorRecord, ...]
    producer: ProducerStamp | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the broker's log: a %-style message and its arguments."""

    message: str
    arguments: tuple[object, ...] = ()
