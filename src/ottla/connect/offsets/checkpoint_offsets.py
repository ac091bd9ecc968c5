"""Offsets of source connectors on Spark: the copy of what is in their checkpoints, and what shall be there.

What is altered here is what the checkpoint of the next generation begins at; after a reset that is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.connect.data.schema import DataError
from ottla.connect.offsets.connector_offsets import (
    BadOffsets,
    ConnectorOffset,
    ConnectorOffsets,
    OffsetsOwner,
)
from ottla.connect.spark.query_offsets import json_of_offset, query_partition


class CheckpointOffsets:
    """See ConnectorOffsets. stored: where the offsets of sources are."""

    def __init__(self, stored: ConnectorOffsets) -> None:
        self._stored = stored

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """See ConnectorOffsets: the one of the connector's query, as of its last batch."""
        return await self._stored.committed(owner)

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """See ConnectorOffsets."""
        own = query_partition(owner.name)
        for partition, offset in offsets:
            if partition is None or dict(partition) != dict(own):
                raise BadOffsets(f"The one partition of {owner.name} is {dict(own)}, not {partition}")
            try:
                if offset is not None:
                    json_of_offset(offset)
            except DataError as problem:
                raise BadOffsets(f"The offset {offset} of {owner.name} can't be: {problem}") from None
        return await self._stored.alter(owner, offsets)

    async def reset(self, owner: OffsetsOwner) -> str:
        """See ConnectorOffsets."""
        return await self._stored.reset(owner)
