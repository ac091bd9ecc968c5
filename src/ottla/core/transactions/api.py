"""The events and effects that only a transaction shard has, beside those of every coordinator.

Requests come split by transactional id: AddPartitionsToTxn in its form of version 4 and later with exactly
one transaction (AddOffsetsToTxn comes as one, with the partition of the group), DescribeTransactions with the
ids of this shard. `client.api_version` is that of the client's request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Loaded,
    Moment,
    Note,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ObtainProducerId:
    """Take a fresh producer id and report it with `ticket`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ProducerIdObtained:
    """The end of an `ObtainProducerId`: an id, or the error in its place."""

    at: Moment
    ticket: int
    producer_id: int
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the marker that ends this transaction into each of the partitions, and retry until that succeeds.

    Each partition's marker is reported with `MarkersWritten` once it is committed or the partition is
    deleted. A shard that has resigned expects no report. The markers' coordinator epoch is the leader epoch
    of the shard's partition plus `coordinator_epoch_lead`.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch_lead: int = 0


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Markers of a `WriteMarkers` are in the log."""

    at: Moment
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The broker's settings or the level of transaction.version have changed."""

    at: Moment
    settings: TransactionSettings


Event: TypeAlias = (
    RequestReceived
    | Tick
    | AppendDone
    | AppendFailed
    | ProducerIdObtained
    | MarkersWritten
    | SettingsChanged
    | Loaded
    | Resigned
)
Effect: TypeAlias = Reply | Append | Note | ObtainProducerId | WriteMarkers
