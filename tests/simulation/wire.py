"""What simulated clients and followers say to brokers: what matters of Produce, Fetch and Metadata.

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
    """A follower asks for the partitions that it follows."""

    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    partitions: tuple[tuple[PartitionKey, FetchPosition], ...]


class Fetched(NamedTuple):
    """Its answer, partition by partition."""

    partitions: tuple[tuple[PartitionKey, FetchAnswer], ...]


class OffsetsAsked(NamedTuple):
    """A follower asks where the leader's log begins and ends."""

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
    """What became of it."""

    error: ErrorCode
    base_offset: int = -1


class Consumed(NamedTuple):
    """A consumer polls from an offset."""

    key: PartitionKey
    offset: int
    leader_epoch: int
    max_wait_ms: int


class ConsumeAnswer(NamedTuple):
    """Committed batches from there on."""

    error: ErrorCode
    high_watermark: int = -1
    records: bytes = b""


class MetadataAsked(NamedTuple):
    """Who leads what, as the broker knows."""

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
    """An idempotent producer begins."""


class ProducerIdAnswer(NamedTuple):
    """Its id."""

    error: ErrorCode
    producer_id: int = -1
