"""What a partition's leader writes when its mirror ends, and what it reports of it.

Open transactions have no coordinator in this cluster: without a marker they would hold the last stable offset
for ever, so each is aborted, in the new leader epoch. Producers whose ids this cluster may have given out,
too, get a marker of a higher epoch: such a producer of this cluster, which sends its first batches with epoch
0, is then refused loudly instead of being answered "duplicate" for somebody else's batches. Producers of
later ids need none: ids given out from now on are above every mirrored one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.core.links.topic_state import AbortedTransaction

LAST_EPOCH: Final = 2**15 - 1


class KnownProducer(Protocol):
    """A producer's state in the log of a mirror."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    current_txn_first_offset: int


@dataclass(frozen=True, slots=True)
class EndMarker:
    """An abort marker to append."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class MirrorEnd:
    """The markers to append in their order, the transactions that they abort, the largest producer id."""

    markers: tuple[EndMarker, ...]
    aborted: tuple[AbortedTransaction, ...]
    max_producer_id: int


def end_of_mirror(producers: Iterable[KnownProducer], next_producer_id: int) -> MirrorEnd:
    """The end of a mirror with these producers. next_producer_id: below it, ids were given out here."""
    known = sorted(producers, key=lambda each: each.producer_id)
    open_ones = sorted(
        (each for each in known if each.current_txn_first_offset >= 0),
        key=lambda each: each.current_txn_first_offset,
    )
    markers = [_marker(each, each.epoch) for each in open_ones]
    markers += [
        _marker(each, each.epoch + 1)
        for each in known
        if each.producer_id < next_producer_id and 0 <= each.epoch < LAST_EPOCH
    ]
    return MirrorEnd(
        tuple(markers),
        tuple(AbortedTransaction(each.producer_id, each.current_txn_first_offset) for each in open_ones),
        max((each.producer_id for each in known), default=-1),
    )


def _marker(producer: KnownProducer, epoch: int) -> EndMarker:
    return EndMarker(producer.producer_id, epoch, max(0, producer.coordinator_epoch))
