"""How far consumer groups are behind the ends of the partitions that they read."""

from __future__ import annotations

from collections.abc import Collection

from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.admin.model import Group, OffsetSpec, PartitionLag


async def group_lags(
    admin: ClusterAdmin, group: Group, only: Collection[tuple[str, int]] | None = None
) -> list[PartitionLag]:
    """The lag of each partition that the group has committed an offset of, sorted; or of those in `only`.

    Partitions that are gone are left out. Raises ApiError.
    """
    committed = await admin.committed(group.id)
    if only is not None:
        committed = {partition: offset for partition, offset in committed.items() if partition in only}
    ends = await admin.offsets(committed, OffsetSpec.LATEST)
    owners = {partition: member for member in group.members for partition in member.assigned}
    return [
        PartitionLag(topic, partition, committed[topic, partition], end, owners.get((topic, partition)))
        for (topic, partition), end in sorted(ends.items())
    ]
