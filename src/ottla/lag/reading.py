"""Reads where groups stand, once: their offsets, the ends of the logs, and the records that are next.

The order of the reads is what makes a lag right. Ends are read before the offsets that they are compared
with: a group that keeps up may commit beyond such an end, and has no lag then. The other way round, records
that were written between the two reads, and perhaps read and committed too, would be a lag that never was.
Since a group's partitions are known by its offsets alone, these are read twice, the first time for their
partitions. Ends of partitions that come up with the second reading are read after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.partition_offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.first_records import FirstRecord, Found, Place, first_records
from ottla.client.groups.describing import describe_groups
from ottla.client.groups.model import (
    ACTIVE_STATES,
    GroupDescription,
    GroupMember,
    GroupOffset,
    GroupOffsets,
    GroupType,
    ListedGroup,
)
from ottla.client.groups.offsets import group_offsets
from ottla.lag.core.standing import LogSpan, Standing, lag_ms, standing
from ottla.protocol.errors import ErrorCode

LEADER_SECONDS: Final = 2.0
"""To wait for a partition that has no leader: its lag is then unknown, and the others are told."""
PARTITIONS_A_REQUEST: Final = 4_000
GROUPS_A_REQUEST: Final = 500
REQUESTS_AT_ONCE: Final = 4
"""Pages that are asked for side by side; each is a request to every leader or coordinator."""

Wanted = Callable[[str], bool]
"""Whether a topic is wanted, by its name."""
Owners = dict[TopicPartition, GroupMember]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group in a partition. offset, start, end: None where there is none, or it is not known.

    lag_ms: how long the next record has waited. problem: why the lag is not known.
    """

    partition: TopicPartition
    standing: Standing
    lag_ms: int | None
    offset: int | None
    start: int | None
    end: int | None
    metadata: str = ""
    member: GroupMember | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group. problem: why its offsets are not known."""

    group: ListedGroup
    partitions: tuple[PartitionLag, ...]
    problem: ClusterError | None = None

    @property
    def is_told(self) -> bool:
        """Whether the lag is as the coordinator says it, without the records that were acknowledged."""
        return self.group.type is GroupType.SHARE


@dataclass(frozen=True, slots=True)
class Page:
    """Offsets of logs, as they were between the time of the question and that of the answer."""

    asked_ms: int
    answered_ms: int
    found: Mapping[TopicPartition, FoundOffset | ClusterError]


@dataclass(frozen=True, slots=True)
class Lags:
    """Where groups stood at read_ms, when their offsets had been read. ends, firsts: as they were found."""

    read_ms: int
    ends: tuple[Page, ...]
    groups: tuple[GroupLag, ...]
    firsts: Mapping[Place, Found]


async def read_lags(
    client: ClusterRequests,
    groups: Sequence[ListedGroup],
    *,
    topics: Wanted = lambda _: True,
    committed: bool = False,
    records: bool = True,
) -> Lags:
    """Where the groups stand now. Raises ClusterError if the cluster does not answer at all.

    committed: for readers of committed records, up to the last stable offset. records: look at the next
    record of each group that is behind: how long it has waited, and whether there is one at all.
    """
    types = {one.group_id: one.type for one in groups}
    owners, known = await asyncio.gather(read_owners(client, groups), group_offsets(client, types))
    partitions = {one for found in known.values() for one in _offsets(found) if topics(one.topic)}
    partitions |= {one for of_group in owners.values() for one in of_group if topics(one.topic)}
    pages = await read_pages(client, partitions, LATEST, committed=committed)
    ends = merged(pages)
    offsets = await group_offsets(client, types)
    read_ms = now_ms()
    at = {
        (group_id, partition): found
        for group_id, of_group in offsets.items()
        for partition, found in _offsets(of_group).items()
        if topics(partition.topic)
    }
    new = {partition for _, partition in at} - ends.keys()
    pages += await read_pages(client, new, LATEST, committed=committed)
    ends = merged(pages)
    logs = await _logs(client, ends, set(_places(at)), committed)
    firsts: Mapping[Place, Found] = {}
    if records:
        firsts = await first_records(client, _behind(at, logs), LEADER_SECONDS, committed=committed)
    reading = _Reading(ends, logs, firsts, read_ms)
    lags = []
    for group in groups:
        of_group = offsets[group.group_id]
        mine = {one: found for one, found in _offsets(of_group).items() if topics(one.topic)}
        assigned = {
            one: member for one, member in owners.get(group.group_id, {}).items() if topics(one.topic)
        }
        rows = tuple(
            reading.partition(one, mine.get(one), assigned.get(one))
            for one in sorted(mine.keys() | assigned.keys())
        )
        problem = of_group if isinstance(of_group, ClusterError) else None
        if problem is not None and problem.code == ErrorCode.GROUP_ID_NOT_FOUND and rows:
            problem = None  # a group with members that has committed nothing
        lags.append(GroupLag(group, rows, problem))
    return Lags(read_ms, tuple(pages), tuple(lags), firsts)


@dataclass(frozen=True, slots=True)
class _Reading:
    """All that one reading found of the logs."""

    ends: Mapping[TopicPartition, FoundOffset | ClusterError]
    logs: Mapping[TopicPartition, LogSpan]
    firsts: Mapping[Place, Found]
    now_ms: int

    def partition(
        self, partition: TopicPartition, known: GroupOffset | None, member: GroupMember | None
    ) -> PartitionLag:
        """Where a group with this offset stands."""
        log = self.logs.get(partition)
        offset = None if known is None else known.offset
        first = None if offset is None else self.firsts.get((partition, _at(offset, log)))
        where = standing(offset, log, first, None if known is None else known.lag)
        written_ms = first.timestamp_ms if isinstance(first, FirstRecord) else None
        end = self.ends.get(partition)
        return PartitionLag(
            partition,
            where,
            lag_ms(where, written_ms, self.now_ms),
            offset,
            None if log is None else log.start,
            None if log is None else log.end,
            "" if known is None else known.metadata,
            member,
            str(end) if isinstance(end, ClusterError) else None,
        )


async def read_pages(
    client: ClusterRequests, partitions: Collection[TopicPartition], which: int, *, committed: bool = False
) -> list[Page]:
    """The start or the end of each partition, a bounded number of partitions a request."""
    room = asyncio.Semaphore(REQUESTS_AT_ONCE)
    listed = sorted(partitions)

    async def page(start: int) -> Page:
        async with room:
            some = dict.fromkeys(listed[start : start + PARTITIONS_A_REQUEST], which)
            asked_ms = now_ms()
            found = await list_offsets(client, some, committed=committed, seconds=LEADER_SECONDS)
            return Page(asked_ms, now_ms(), found)

    return await asyncio.gather(*map(page, range(0, len(listed), PARTITIONS_A_REQUEST)))


async def read_offsets(
    client: ClusterRequests, partitions: Collection[TopicPartition], which: int, *, committed: bool = False
) -> dict[TopicPartition, FoundOffset | ClusterError]:
    """As `read_pages`, without the times."""
    return merged(await read_pages(client, partitions, which, committed=committed))


def merged(pages: Iterable[Page]) -> dict[TopicPartition, FoundOffset | ClusterError]:
    """The offsets of all pages."""
    return {partition: found for page in pages for partition, found in page.found.items()}


async def read_owners(client: ClusterRequests, groups: Iterable[ListedGroup]) -> dict[str, Owners]:
    """The members of the groups' partitions, of groups that have members."""
    types = {one.group_id: one.type for one in groups if one.state is None or one.state in ACTIVE_STATES}
    described = await describe_groups(client, types) if types else {}
    return {
        group_id: one.owners() for group_id, one in described.items() if isinstance(one, GroupDescription)
    }


async def _logs(
    client: ClusterRequests,
    ends: Mapping[TopicPartition, FoundOffset | ClusterError],
    places: Collection[Place],
    committed: bool,
) -> dict[TopicPartition, LogSpan]:
    """The logs whose ends are known, with the starts of those that groups have not read to the end.

    Starts only move up: read last, they never hide records that a group could still read.
    """
    known = {one: end.offset for one, end in ends.items() if isinstance(end, FoundOffset)}
    behind = {one for one, offset in places if one in known and offset < known[one]}
    beyond = {one for one, offset in places if one in known and offset > known[one]}
    starts, later = await asyncio.gather(
        read_offsets(client, behind, EARLIEST),
        read_offsets(client, beyond, LATEST, committed=committed),
    )
    return {
        one: LogSpan(end, _offset(starts.get(one)), _offset(later.get(one))) for one, end in known.items()
    }


def _behind(
    at: Mapping[tuple[str, TopicPartition], GroupOffset], logs: Mapping[TopicPartition, LogSpan]
) -> list[Place]:
    """The places of groups that have offsets before them; from the log's start where theirs is removed."""
    return [
        (partition, _at(offset, logs[partition]))
        for partition, offset in _places(at)
        if partition in logs and _at(offset, logs[partition]) < logs[partition].end
    ]


def _places(at: Mapping[tuple[str, TopicPartition], GroupOffset]) -> list[Place]:
    return [(partition, one.offset) for (_, partition), one in at.items() if one.offset is not None]


def _at(offset: int, log: LogSpan | None) -> int:
    return offset if log is None else max(offset, log.start or 0)


def _offset(found: FoundOffset | ClusterError | None) -> int | None:
    return found.offset if isinstance(found, FoundOffset) else None


def _offsets(found: GroupOffsets | ClusterError) -> GroupOffsets:
    return {} if isinstance(found, ClusterError) else found
