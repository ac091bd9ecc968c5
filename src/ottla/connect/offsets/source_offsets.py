"""Offsets of source connectors: records of their offsets topic, or lines of a standalone worker's file.

They are written when the tasks have stopped. Exactly once, the writer takes the transactional id of task 0,
which fences a task that was left behind, and writes in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.data.schema import DataError
from ottla.connect.host.clients import producer, transactional_id
from ottla.connect.host.messages import Role, Run, Start
from ottla.connect.host.offset_records import OffsetImage, key_bytes, validate, value_bytes
from ottla.connect.host.offset_store import (
    OffsetTopic,
    OffsetTopics,
    ensure_topic,
    merged,
    offset_file,
    offset_topics,
    read_image,
)
from ottla.connect.host.producing import Outgoing, drain, produced
from ottla.connect.host.settings import exactly_once, worker_settings
from ottla.connect.offsets.connector_offsets import (
    ALTERED,
    RESET,
    BadOffsets,
    ConnectorOffset,
    OffsetsFailed,
    OffsetsOwner,
)

TIMEOUT_SECONDS: Final = 90.0
_CALL_SECONDS: Final = 10.0

Rows = list[tuple[bytes, bytes | None]]
"""Keys and values of records."""


class SourceOffsets:
    """See ConnectorOffsets."""

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """See ConnectorOffsets."""
        start = _start(owner)
        try:
            if (file := offset_file(start)) is not None:
                found = await asyncio.to_thread(file.of, owner.name)
            else:
                topics = offset_topics(start)
                found = merged(owner.name, *await _images(start, topics))
        except UserError as problem:
            raise OffsetsFailed(
                f"Failed to retrieve offsets for source connector {owner.name}: {problem}"
            ) from problem
        found.sort(key=lambda each: key_bytes(owner.name, each[0]))
        return [ConnectorOffset(partition, offset) for partition, offset in found]

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """See ConnectorOffsets."""
        for partition, offset in offsets:
            if partition is None:
                raise BadOffsets("The partition for a source connector offset cannot be null or missing")
            _require_storable(partition)
            _require_storable(offset)
        await self._write(owner, list(offsets))
        return ALTERED

    async def reset(self, owner: OffsetsOwner) -> str:
        """See ConnectorOffsets."""
        known = await self.committed(owner)
        await self._write(owner, [ConnectorOffset(each.partition, None) for each in known])
        return RESET

    async def _write(self, owner: OffsetsOwner, offsets: list[ConnectorOffset]) -> None:
        if not offsets:
            return
        start = _start(owner)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            if (file := offset_file(start)) is not None:
                await asyncio.to_thread(file.write, owner.name, _places(offsets))
                return
            topics = offset_topics(start)
            own, older = await _images(start, topics)
            if topics.older is not None and older is not None:
                # Before the own topic: an offset that is reset there must not come back from the older one.
                tombstones = [each for each in offsets if each.offset is None]
                rows = _rows(owner.name, tombstones, older)
                await asyncio.to_thread(_produce, start, topics.older, rows, deadline)
            await asyncio.to_thread(_produce, start, topics.own, _rows(owner.name, offsets, own), deadline)
        except DataError as problem:
            raise OffsetsFailed(str(problem)) from problem
        except UserError as problem:
            raise OffsetsFailed(
                f"Failed to modify offsets for source connector {owner.name}: {problem}"
            ) from problem
        except KafkaException as problem:
            reason = problem.args[0].str()
            raise OffsetsFailed(
                f"Failed to modify offsets for source connector {owner.name}: {reason}"
            ) from problem


def _start(owner: OffsetsOwner) -> Start:
    """The connector as the host's modules take it: as its task 0."""
    return Start(Run(owner.name, 0, 0), Role.SOURCE_TASK, owner.config, owner.worker)


async def _images(start: Start, topics: OffsetTopics) -> tuple[OffsetImage, OffsetImage | None]:
    own = await read_image(start, topics.own)
    return own, None if topics.older is None else await read_image(start, topics.older)


def _require_storable(data: Mapping[str, Any] | None) -> None:
    try:
        validate(data)
        if data is not None:
            key_bytes("", data)
    except DataError as problem:
        raise OffsetsFailed(str(problem)) from problem


def _places(
    offsets: Sequence[ConnectorOffset],
) -> list[tuple[SourcePartition, SourceOffset | None]]:
    return [(partition, offset) for partition, offset in offsets if partition is not None]


def _rows(name: str, offsets: Sequence[ConnectorOffset], image: OffsetImage) -> Rows:
    rows: Rows = []
    for partition, offset in offsets:
        assert partition is not None
        # the same partition under other bytes: an older offset that would outlive this one
        rows += [(key, None) for key in image.spellings(name, partition)]
        rows.append((key_bytes(name, partition), value_bytes(offset)))
    return rows


def _produce(start: Start, topic: OffsetTopic, rows: Rows, deadline: float) -> None:
    """Write records and wait until they are stored. Raises KafkaException, ClusterError."""
    ensure_topic(start, topic, worker_settings(start))
    problems: list[KafkaError] = []
    once = exactly_once(start.worker)
    client = producer(
        start,
        lambda problem, _: problems.append(problem),
        transactional_id=transactional_id(start) if once else None,
        of_worker=topic.of_worker,
    )
    try:
        if once:
            _until(deadline, lambda: client.init_transactions(_CALL_SECONDS))
            client.begin_transaction()
        for key, value in rows:
            produced(client, Outgoing(topic.name, value, key))
        if once:
            _until(deadline, lambda: client.commit_transaction(_CALL_SECONDS))
        elif not drain(client, seconds=max(0.0, deadline - time.monotonic())):
            raise ClusterError("Timed out while attempting to modify offsets")
        if problems:
            raise KafkaException(problems[0])
    finally:
        client.purge()


def _until(deadline: float, call: Any) -> None:
    """Make a call until it is known how it ended. Raises KafkaException."""
    while True:
        try:
            call()
            return
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise
