"""Ends a mirrored partition as its leader, once its topic is stopped, and reports that it is ready.

The order of writes, which makes a kill at any line survivable:

    1. the controller has made "stopped" and the new leader epoch durable, in one batch
    2. the leader has noted the new epoch at the log's end (a follower of an older epoch is told apart by it)
    3. markers for open transactions, in the new epoch; then all of the log is committed. The log's epochs
       tell what came from the source, so a second attempt reports the same end, and the same transactions
    4. the report is added to `ottla.link.ends`, durably
    5. when all partitions have reported: the settings go, and the ids of producers rise, in one batch

"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.links.mirror_settings import report
from ottla.core.image.image import TOPIC_RESOURCE
from ottla.core.links.promotion import EndMarker, end_of_mirror
from ottla.core.links.topic_state import AbortedTransaction, MirrorState, PartitionEnd, mirror_state
from ottla.core.settings.link_settings import LINK_ENDS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_batch import encode_end_transaction_marker, parse_batch_header

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode
    from ottla.broker.replication.partition import Partition

log = logging.getLogger("ottla.broker.links")

COMMIT_TIMEOUT_MS: Final = 10_000
PAUSE_SECONDS: Final = 0.2


async def end_mirror(node: LinksNode, partition: Partition, leader_epoch: int) -> None:
    """Make the partition ready to be written to, and report it, unless it is led in another epoch by then."""
    while partition.is_leader and partition.leader_epoch == leader_epoch:
        state = _state(node, partition)
        if state is None or not state.is_stopped or partition.index in (state.ends or {}):
            return
        try:
            if await _end(node, partition, state, leader_epoch):
                return
        except (KafkaError, OSError) as problem:
            log.warning(
                "mirror not ended yet topic=%s partition=%d reason=%s",
                partition.topic, partition.index, problem,
            )  # fmt: skip
        await asyncio.sleep(PAUSE_SECONDS)


def _state(node: LinksNode, partition: Partition) -> MirrorState | None:
    return mirror_state(node.image.configs.get((TOPIC_RESOURCE, partition.topic), {}))


async def _end(node: LinksNode, partition: Partition, state: MirrorState, leader_epoch: int) -> bool:
    stored = partition.log
    first_own_epoch = (state.epochs or {}).get(partition.index, leader_epoch)
    _, mirrored_end = stored.end_offset_for_epoch(first_own_epoch - 1)
    if mirrored_end < 0:
        mirrored_end = stored.log_end_offset
    ended = end_of_mirror(stored.producers, node.image.next_producer_id)
    for marker in ended.markers:
        _append(node, partition, marker)
    if stored.log_end_offset > partition.high_watermark:
        code = await partition.committed(stored.log_end_offset, COMMIT_TIMEOUT_MS)
        if code is not ErrorCode.NONE:
            return False
    if partition.leader_epoch != leader_epoch:
        return False
    aborted = [
        AbortedTransaction(each.producer_id, each.first_offset)
        for each in stored.aborted_transactions(mirrored_end, stored.log_end_offset)
        if each.last_offset >= mirrored_end
    ]
    done = PartitionEnd(
        partition.index,
        mirrored_end,
        stored.log_end_offset,
        leader_epoch,
        ended.max_producer_id,
        len(aborted),
        tuple(sorted(aborted, key=lambda each: each.first_offset)),
    )
    await report(node, partition.topic, LINK_ENDS.name, [done.encode()])
    return True


def _append(node: LinksNode, partition: Partition, marker: EndMarker) -> None:
    now_ms = node.now_ms()
    batch = memoryview(
        bytearray(
            encode_end_transaction_marker(
                committed=False,
                coordinator_epoch=marker.coordinator_epoch,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp=now_ms,
            )
        )
    )
    partition.append(batch, (parse_batch_header(batch),), now_ms)
