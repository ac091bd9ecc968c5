"""Offsets of source connectors on Spark: they are in a checkpoint that Spark alone can read."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.connect.offsets.connector_offsets import RESET, BadOffsets, ConnectorOffset, OffsetsOwner


class CheckpointOffsets:
    """See ConnectorOffsets. A reset is the next generation's empty checkpoint, so nothing is written here."""

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """See ConnectorOffsets: there are none of which another program could make something."""
        return []

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """See ConnectorOffsets."""
        raise BadOffsets(
            f"The offsets of {owner.name} can't be altered: they are in Spark's checkpoint "
            f"({owner.config.get('spark.checkpoint.location', '')}). They can be reset (DELETE), after which "
            "everything is read again."
        )

    async def reset(self, owner: OffsetsOwner) -> str:
        """See ConnectorOffsets."""
        return RESET
