"""The rare effects of a mirrored partition: losses told, logs cut, leader epochs raised, topics looked for.

The order of writes, which makes a kill at any line survivable:

    a loss    is in the metadata log (`ottla.link.told`) before the mirror's log changes for it. After a kill
              in between the next leader finds the same loss and tells it again, which adds nothing
    a cut     recovery point and high watermark checkpoints are lowered and synced first, then the log is cut,
              newest segment first, then its epochs, as a follower does
    an epoch  the controller raises it before the first batch of it is appended; batches that came are dropped
              and fetched again in the new leader epoch

While a partition waits here it is in no fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.links.mirror_settings import report
from ottla.broker.links.mirrored import Mirrored
from ottla.broker.links.source import EARLIEST, LATEST, Source, SourceUnusable
from ottla.core.links.mirror import (
    AdvanceLogStart,
    AppendMirrored,
    AskOffsets,
    Effect,
    LookForLeader,
    LookForTopic,
    RaiseEpoch,
    RetryLater,
    StartOver,
    Tell,
    Truncate,
)
from ottla.core.links.topic_state import Loss
from ottla.core.settings.link_settings import LINK_EPOCHS, LINK_TOLD
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

MISSES: Final = 5
"""How often all of the source's brokers must say that a topic is not there; the pauses in between grow."""

log = logging.getLogger("ottla.broker.links")


class MirrorEffects:
    """Performs the rare effects of one link's partitions, one partition at a time."""

    def __init__(self, node: LinksNode, link: str, source: Source) -> None:
        self._node = node
        self._link = link
        self._source = source

    async def perform(self, mirrored: Mirrored, effects: Sequence[Effect]) -> bool:
        """Perform effects in their order. Returns whether the partition may be fetched again at once."""
        try:
            for effect in effects:
                if not mirrored.is_current or not await self._perform(mirrored, effect):
                    return False
        except (KafkaError, SourceUnusable, OSError) as problem:
            log.warning(
                "mirror waits link=%s topic=%s partition=%d reason=%s", self._link, *mirrored.key, problem
            )
            return False
        return True

    async def _perform(self, mirrored: Mirrored, effect: Effect) -> bool:
        topic, index = mirrored.key
        match effect:
            case Tell():
                await self._tell(mirrored, effect)
            case Truncate() | StartOver():
                await self._cut(mirrored, effect)
            case AdvanceLogStart(offset):
                advance_log_start(mirrored, offset)
            case RaiseEpoch(epoch):
                # The new leader epoch comes with the metadata; this one copies nothing more.
                await report(self._node, topic, LINK_EPOCHS.name, [f"{index}:{epoch}"])
                return False
            case AskOffsets(position):
                # The start first: one that moves on meanwhile would look like a source that lost its end.
                starts = await self._source.offsets([(topic, index)], EARLIEST, purpose="repairs")
                ends = await self._source.offsets([(topic, index)], LATEST, purpose="repairs")
                start, end = starts.get((topic, index)), ends.get((topic, index))
                if start is None or end is None:
                    await self._source.metadata()
                    return False
                return await self.perform(mirrored, mirrored.mirror.on_source_offsets(position, start, end))
            case LookForTopic():
                found = await self._source.topic_ids(topic)
                if mirrored.source_id in found:
                    mirrored.misses = 0
                    await self._source.metadata()
                    return False
                mirrored.misses += 1
                if mirrored.misses < MISSES:  # a broker that has just started may not know of it yet
                    return False
                other = next(iter(found), None)
                effects = mirrored.mirror.on_source_topic(mirrored.source_id, other)
                return await self.perform(mirrored, effects)
            case LookForLeader():
                await self._source.metadata()
                return False
            case RetryLater(error):
                log.info(
                    "fetch from the source refused link=%s topic=%s partition=%d error=%s",
                    self._link, topic, index, error.name,
                )  # fmt: skip
                return False
            case AppendMirrored():
                raise AssertionError("appends are the fetcher's")
        return True

    async def _tell(self, mirrored: Mirrored, effect: Tell) -> None:
        topic, index = mirrored.key
        loss = Loss(index, effect.kind, effect.from_offset, effect.to_offset, self._node.now_ms())
        log.warning(
            "the source of a mirror %s link=%s topic=%s partition=%d from=%d to=%d",
            effect.kind.value, self._link, topic, index, effect.from_offset, effect.to_offset,
        )  # fmt: skip
        await report(self._node, topic, LINK_TOLD.name, [loss.encode()])
        if effect.kind.ends_mirroring:
            mirrored.is_copied = False

    async def _cut(self, mirrored: Mirrored, effect: Truncate | StartOver) -> None:
        partition = mirrored.partition
        stored = partition.log
        end = stored.log_end_offset
        await self._node.replication.logs.before_truncation([(stored, min(effect.offset, end))])
        if not mirrored.is_current or stored.log_end_offset != end:
            return
        now_ms = self._node.now_ms()
        if isinstance(effect, Truncate):
            stored.truncate_to(effect.offset, now_ms=now_ms)
        else:
            stored.truncate_fully(effect.offset, now_ms=now_ms)
        self._node.replication.cleaner.on_truncated(partition.topic, partition.index, stored.log_end_offset)
        partition.on_mirror_cut()


def advance_log_start(mirrored: Mirrored, offset: int) -> None:
    """Follow the source's log start, as far as this log reaches."""
    partition = mirrored.partition
    stored = partition.log
    wanted = min(offset, partition.high_watermark)
    if wanted > stored.log_start_offset:
        stored.advance_log_start_offset(wanted)
        partition.wake_followers()
