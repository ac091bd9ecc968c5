"""The messages of simulated clients and followers to brokers: the relevant parts of Produce, Fetch and
Metadata.

Requests to controllers, and those of the quorum, are the protocol's own messages.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ottla.core.replica.follower import FetchAnswer, FetchPosition
from ottla.protocol.errors import ErrorCode

BROKER_SERVICE = "broker"

PartitionKey = tuple[UUID, int]


class FetchAsked(NamedTuple):
    """A follower's fetch of the partitions that it follows."""

    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    partitions: tuple[tuple[PartitionKey, FetchPosition], ...]


class Fetched(NamedTuple):
    """Its answer, partition by partition."""

    partitions: tuple[tuple[PartitionKey, FetchAnswer], ...]


class OffsetsAsked(NamedTuple):
    """A follower's question for the start and end of the leader's log."""

    key: PartitionKey
    leader_epoch: int


class Offsets(NamedTuple):
    """Its answer."""

    error: ErrorCode
    start_offset: int = -1
    end_offset: int = -1


class Produced(NamedTuple):
    """A batch to append."""

    key: PartitionKey
    batch: bytes
    acks: int
    timeout_ms: int


class ProduceAnswer(NamedTuple):
    """The result of an append."""

    error: ErrorCode
    base_offset: int = -1


class Consumed(NamedTuple):
    """A consumer's poll from an offset."""

    key: PartitionKey
    offset: int
    leader_epoch: int
    max_wait_ms: int


class ConsumeAnswer(NamedTuple):
    """Committed batches from that offset on."""

    error: ErrorCode
    high_watermark: int = -1
    records: bytes = b""


class MetadataAsked(NamedTuple):
    """A question for the partitions' leaders, as the broker knows them."""

    topic: str


class PartitionLocation(NamedTuple):
    """A partition's leader."""

    index: int
    leader: int
    leader_epoch: int


class MetadataAnswer(NamedTuple):
    """The topic's id and partitions, None if it does not exist there; the brokers that are not fenced."""

    topic_id: UUID | None
    partitions: tuple[PartitionLocation, ...]
    brokers: tuple[int, ...]


class ProducerIdAsked(NamedTuple):
    """An idempotent producer's question for an id."""


class ProducerIdAnswer(NamedTuple):
    """The producer's id."""

    error: ErrorCode
    producer_id: int = -1
