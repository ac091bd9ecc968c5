"""Appends the batches of producers to partitions led here, once each is checked by its topic's rules.

A batch is checked and appended in one turn of the event loop. One that would hold the loop for too long, and
one whose topic asks for schemas, is checked first (`check_produced`) and appended afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replication_settings import read_only
from ottla.protocol.batch_validation import HeavyBatch, validate_produced
from ottla.protocol.errors import MessageTooLarge, NotEnoughReplicas
from ottla.protocol.record_batch import LOG_APPEND_TIME, BatchHeader
from ottla.protocol.schema import Buffer
from ottla.storage.producer_states import Verification

if TYPE_CHECKING:
    from ottla.broker.replication.replication_settings import ReplicationSettings
    from ottla.broker.replication.schema_validation import SchemaValidation

NO_TIMESTAMP = -1
ACKS_ALL = -1


class Appended(NamedTuple):
    """Where a produced batch landed (offsets of the first append, if this one is a duplicate)."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Uncommitted(NamedTuple):
    """A produced batch that is not on all replicas that it has to be on."""

    appended: Appended
    partition: Partition
    end_offset: int


class CheckedBatch(NamedTuple):
    """A produced batch that was checked apart from its append, and when."""

    header: BatchHeader
    batch: memoryview
    now_ms: int


class ProducedAppends:
    """Appends of producers' batches. Used on the event loop only."""

    def __init__(
        self,
        settings: ReplicationSettings,
        schemas: SchemaValidation,
        heavy_check: asyncio.Semaphore,
        now_ms: Callable[[], int],
        flush_soon: Callable[[], None],
    ) -> None:
        """`heavy_check` is held while a thread checks a batch; `flush_soon` has logs synced that are due."""
        self._settings = settings
        self._rules = settings.batch_rules
        self._schemas = schemas
        # The schemas that topics ask for, for the look-up of every append: empty where no topic asks.
        self._schema_rules = schemas.rules
        self._heavy_check = heavy_check
        self._now_ms = now_ms
        self._flush_soon = flush_soon
        self.by_acks = [0, 0, 0]
        """Batches appended by the acks of their requests, which index it: 0, 1, and -1 for all."""

    def append_produced(
        self,
        partition: Partition,
        records: Buffer | None,
        *,
        zstd_allowed: bool = True,
        verification: Verification | None = None,
        checked: CheckedBatch | None = None,
        acks: int = 1,
    ) -> Appended | Uncommitted:
        """Check one produced batch and append it.

        `verification` is the one that the coordinator has confirmed, for a batch that begins a transaction in
        the partition; `checked` is the outcome of `check_produced`. Raises KafkaError for a mistake of the
        client, ProtocolError for a corrupt batch, OSError when the disk refuses; HeavyBatch for a batch that
        `check_produced` should check first.
        """
        if acks == ACKS_ALL and partition.is_replicated and not partition.leader.has_enough_replicas:
            raise NotEnoughReplicas()
        now_ms = self._now_ms()
        try:
            rules = self._rules[partition.topic]
        except KeyError:
            raise read_only(partition.topic) from None
        if checked is None:
            if self._schema_rules and records and partition.topic in self._schema_rules:
                raise HeavyBatch
            try:
                header, batch = validate_produced(
                    records, rules, now_ms, zstd_allowed=zstd_allowed, on_loop=True
                )
            except MessageTooLarge:
                _count_rejected(partition, records)
                raise
        else:
            header, batch, now_ms = checked
        if header.producer_id >= 0:
            duplicate = partition.log.producers.check(
                header, verification, must_verify=self._settings.verifies_transactions
            )
            if duplicate is not None:
                first = Appended(duplicate.base_offset, duplicate.timestamp, partition.log.log_start_offset)
                if duplicate.last_offset < partition.high_watermark:
                    return first
                return Uncommitted(first, partition, duplicate.last_offset + 1)
        result = partition.append(batch, (header,), now_ms)
        self.by_acks[acks] += 1
        if result.rolled or result.flush_due:
            self._flush_soon()
        append_time_ms = header.max_timestamp if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        appended = Appended(result.base_offset, append_time_ms, partition.log.log_start_offset)
        if partition.is_replicated and partition.high_watermark <= result.last_offset:
            return Uncommitted(appended, partition, result.last_offset + 1)
        return appended

    async def check_produced(
        self, partition: Partition, records: Buffer, *, zstd_allowed: bool
    ) -> CheckedBatch:
        """Check a batch that would hold the event loop for too long in a thread, one at a time, and one whose
        topic asks for schemas against their registry.

        `records` must not change meanwhile. Raises as `append_produced`. The order of a connection's batches
        stays: it has one request under way.
        """
        try:
            return await self._checked(partition, records, zstd_allowed)
        except MessageTooLarge:
            _count_rejected(partition, records)
            raise

    async def _checked(self, partition: Partition, records: Buffer, zstd_allowed: bool) -> CheckedBatch:
        rules = self._settings.rules_of(partition.topic)
        schemas = self._schema_rules.get(partition.topic)
        now_ms = self._now_ms()
        checked = None
        if schemas is not None:  # then it need not be heavy
            with contextlib.suppress(HeavyBatch):
                checked = validate_produced(records, rules, now_ms, zstd_allowed=zstd_allowed, on_loop=True)
        if checked is None:
            async with self._heavy_check:
                now_ms = self._now_ms()
                checked = await asyncio.to_thread(
                    validate_produced, records, rules, now_ms, zstd_allowed=zstd_allowed
                )
        header, batch = checked
        if schemas is not None:
            await self._schemas.check_batch(header, batch, schemas)
        return CheckedBatch(header, batch, now_ms)


def _count_rejected(partition: Partition, records: Buffer | None) -> None:
    """A batch is too large: all that was sent for the partition counts, as in Kafka."""
    partition.rejected_bytes += len(records or b"")
