"""The contract of offsets: what GET, PATCH and DELETE /connectors/C/offsets stand on.

The caller knows that the connector is there, and STOPPED. The texts of errors and answers are Connect's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ottla.config.errors import UserError

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"


@dataclass(frozen=True, slots=True)
class OffsetsOwner:
    """A connector whose offsets are asked for. config, worker: as in a Start."""

    name: str
    config: Mapping[str, str]
    worker: Mapping[str, str]


class ConnectorOffset(NamedTuple):
    """A partition and its offset, both as JSON objects; no offset resets the partition.

    A partition that is missing is refused.
    """

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


class BadOffsets(UserError):
    """A request that can't be meant (400)."""


class OffsetsFailed(UserError):
    """The offsets can't be read or written (500)."""


class ConnectorOffsets(Protocol):
    """The offsets of one kind of connectors. Calls end within 90 s; they raise BadOffsets, OffsetsFailed."""

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """The committed offsets, sorted."""

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """Write offsets. The message for the user."""

    async def reset(self, owner: OffsetsOwner) -> str:
        """Forget all offsets. The message for the user."""


def parse_offsets(body: Any) -> list[ConnectorOffset]:
    """The offsets of a PATCH's body, {"offsets": [{"partition": …, "offset": …}]}. Raises BadOffsets."""
    offsets = body.get("offsets") if isinstance(body, Mapping) else None
    if not isinstance(offsets, list) or not offsets:
        raise BadOffsets("Partitions / offsets need to be provided for an alter offsets request")
    found: list[ConnectorOffset] = []
    for each in offsets:
        if not isinstance(each, Mapping):
            raise BadOffsets("Each of the offsets needs to be an object with a partition and an offset")
        partition, offset = each.get("partition"), each.get("offset")
        if partition is not None and not isinstance(partition, Mapping):
            raise BadOffsets("The partition of an offset needs to be an object")
        if offset is not None and not isinstance(offset, Mapping):
            raise BadOffsets("The offset of a partition needs to be an object, or null")
        found.append(ConnectorOffset(partition, offset))
    return found
