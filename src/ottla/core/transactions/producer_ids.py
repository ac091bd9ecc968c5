"""Producer ids, given out of blocks that the controller has made durable (KIP-98, KIP-730)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """`size` producer ids from `first` on, which no other broker and no later run gives out."""

    first: int
    size: int


class ProducerIds:
    """The free part of the current block.

    A crash loses the rest of a block, which wastes ids but never gives one out twice: a block is durable in
    the metadata log before its first id is used.
    """

    __slots__ = ("_end", "_next")

    def __init__(self) -> None:
        self._next = 0
        self._end = 0

    def take(self) -> int | None:
        """The next free producer id, or None when a new block is needed."""
        if self._next == self._end:
            return None
        producer_id = self._next
        self._next += 1
        return producer_id

    def drop(self) -> None:
        """Give out no more of the block."""
        self._next = self._end = 0

    def refill(self, block: ProducerIdBlock) -> None:
        """Go on with `block`, and drop the rest of the last one."""
        self._next = block.first
        self._end = block.first + block.size
