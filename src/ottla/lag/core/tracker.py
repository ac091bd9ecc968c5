"""All that is known of one cluster's logs and groups over time, and the verdicts on the groups.

The tracker is told of each reading, with the time, and keeps a bounded part of it: a window of commits for
each group and partition, a window of ends and the times of ends for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.client.cluster_requests import TopicPartition
from ottla.client.first_records import FirstRecord, Found, NoRecord, Place
from ottla.lag.core.log_times import LogTimes, written_ms
from ottla.lag.core.standing import LogSpan, Standing, lag_ms, standing
from ottla.lag.core.verdicts import Status, group_status, partition_status
from ottla.lag.core.windows import INTERVALS, Commit, CommitWindow, EndWindow

EXPIRE_MS: Final = 7 * 24 * 3_600 * 1_000
FINE_MS: Final = 500
"""A bracket as narrow tells the time of a record without a look at the record."""
REVIEW_MS: Final = 60_000
"""How long the first record at a place is known, before it is looked for once more."""
FEW_OFFSETS: Final = 100
"""So few offsets may all be markers."""
BASELINE: Final = -(1 << 62)
"""The order of the offset that a group had when it was first looked at. Changes that were found since come
behind it, all of them below 0: the orders of commits in the topic of commits are its offsets.
"""
QUIET_MS: Final = 60_000
"""How long a group is given for its first change, where its commits are known by changes alone."""
UNTIMED: Final = BASELINE - 1
"""The order of such an offset whose commit was longer ago than commits are read."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Burrow's settings of the windows and of the verdicts, with its defaults.

    minimum_complete: a window that is filled less, 0 to 1, is no ground for a verdict other than OK.
    """

    intervals: int = INTERVALS
    min_distance_ms: int = 0
    expire_ms: int = EXPIRE_MS
    allowed_lag: int = 0
    minimum_complete: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """A group in a partition. first, last: of the window. owner, client_id: of the member, or empty.

    offset: None for a partition in which the group has committed nothing. lag_ms: None if it is not known.
    """

    partition: TopicPartition
    status: Status
    standing: Standing
    lag_ms: int | None
    offset: int | None
    end: int | None
    first: Commit | None
    last: Commit | None
    complete: float
    owner: str = ""
    client_id: str = ""

    @property
    def lag(self) -> int:
        """The lag, 0 where it is not known."""
        return self.standing.lag or 0


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """A group. complete: the part of its partitions whose windows are full."""

    group: str
    status: Status
    complete: float
    partitions: tuple[PartitionVerdict, ...]

    @property
    def total_lag(self) -> int:
        """The records that the group has before it."""
        return sum(one.lag for one in self.partitions)

    @property
    def max_lag(self) -> PartitionVerdict | None:
        """The partition with the most records; the first of several."""
        return max(self.partitions, key=lambda one: one.lag, default=None)


class Wanted(NamedTuple):
    """A place whose first record is to be looked for. end: of its log. looked_ms: None for the first time."""

    place: Place
    end: int
    looked_ms: int | None

    @property
    def rank(self) -> tuple[bool, int]:
        """The order of the looks: new places first, of these few offsets, which may all be markers."""
        if self.looked_ms is None:
            return False, self.end - self.place[1]
        return True, self.looked_ms


class _Look(NamedTuple):
    found: Found
    end: int
    at_ms: int


@dataclass(slots=True)
class _Log:
    """A partition. firsts: the first record from an offset on, and when it was looked for up to which end."""

    ends: EndWindow
    times: LogTimes = field(default_factory=LogTimes)
    start: int | None = None
    first_seen_ms: int = 0
    read_ms: int = 0
    firsts: dict[int, _Look] = field(default_factory=dict)

    def first(self, offset: int) -> Found:
        """The first record from an offset on; None if it was not looked for, or the log has grown since."""
        look = self.firsts.get(offset)
        if look is None or (isinstance(look.found, NoRecord) and look.end < (self.ends.newest or 0)):
            return None
        return look.found


class _Position(NamedTuple):
    """A group's offset in a partition, its lag if a coordinator told it, and when it was first read."""

    offset: int | None
    told_lag: int | None
    since_ms: int


@dataclass(slots=True)
class _Follower:
    """A group in a partition. offset: as it was read at read_ms, None if it has none. lag: as it was told.

    since_ms: when the offset was first read.
    """

    window: CommitWindow
    offset: int | None = None
    read_ms: int = 0
    since_ms: int = 0
    lag: int | None = None
    owner: str = ""
    client_id: str = ""

    def position(self) -> _Position:
        """The newest offset that is known."""
        commits = self.window.commits
        if commits and commits[-1].observed_ms > self.read_ms:
            return _Position(commits[-1].offset, None, commits[-1].observed_ms)
        return _Position(self.offset, self.lag, self.since_ms)


@dataclass(slots=True)
class _Group:
    followed: dict[TopicPartition, _Follower] = field(default_factory=dict)
    last_commit_ms: int = 0


class Tracker:
    """What is known of one cluster. Times are of one clock, in ms since the epoch."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self._logs: dict[TopicPartition, _Log] = {}
        self._groups: dict[str, _Group] = {}

    # -- readings --------------------------------------------------------------------------------------------

    def saw_end(
        self, partition: TopicPartition, end: int, asked_ms: int, answered_ms: int | None = None
    ) -> None:
        """The partition's leader was asked for the end of its log, and answered this."""
        log = self._logs.get(partition)
        if log is None:
            log = self._logs[partition] = _Log(EndWindow(self.rules.intervals), first_seen_ms=asked_ms)
        elif end < (log.ends.newest or 0):
            log.firsts.clear()
            log.start = None
        log.read_ms = asked_ms
        log.ends.add(end)
        log.times.seen(end, asked_ms, asked_ms if answered_ms is None else answered_ms)

    def saw_start(self, partition: TopicPartition, start: int) -> None:
        """The partition's log begins there."""
        log = self._logs.get(partition)
        if log is not None:
            log.start = start

    def saw_first(self, place: Place, found: Found, end: int, now_ms: int) -> None:
        """The first record from a place on. end: of the log, as it was known before the look."""
        log = self._logs.get(place[0])
        if log is not None and found is not None:
            log.firsts[place[1]] = _Look(found, end, now_ms)

    def saw_commit(
        self,
        group: str,
        partition: TopicPartition,
        offset: int,
        *,
        order: int,
        timestamp_ms: int,
        now_ms: int,
    ) -> None:
        """A commit was read in the topic of commits. order: its offset there.

        One of a partition whose end is not known is passed over, as in Burrow. Changes of the offset that
        were found without the topic go: it has them too, with their times.
        """
        log = self._logs.get(partition)
        if log is None or timestamp_ms < now_ms - self.rules.expire_ms:
            return
        of_group = self._groups.setdefault(group, _Group())
        follower = self._follower(of_group, partition)
        follower.window.forget_below(0)
        # the end of a time before the first sample is not known, and the present one says nothing of it
        end = log.ends.newest if timestamp_ms >= log.first_seen_ms else None
        distance_ms = self.rules.min_distance_ms
        if follower.window.add(offset, order, timestamp_ms, now_ms, end, distance_ms):
            of_group.last_commit_ms = timestamp_ms

    def saw_position(
        self,
        group: str,
        partition: TopicPartition,
        offset: int | None,
        now_ms: int,
        *,
        lag: int | None = None,
        committed_ms: int | None = None,
        is_commit: bool = False,
    ) -> None:
        """The group's offset was read of its coordinator; None for an assigned partition without one.

        committed_ms: when it was committed at the latest, if no commit of it can come from another source.
        is_commit: one that differs from the offset before is a commit of this moment: no other source tells.
        """
        of_group = self._groups.setdefault(group, _Group(last_commit_ms=now_ms))
        follower = self._follower(of_group, partition)
        if offset != follower.offset:
            follower.since_ms = now_ms
        follower.offset, follower.read_ms, follower.lag = offset, now_ms, lag
        if offset is None:
            return
        window = follower.window
        if not window.commits and (is_commit or committed_ms is not None):
            log = self._logs.get(partition)
            end = None if log is None or not is_commit else log.ends.newest
            first_ms = now_ms if committed_ms is None else committed_ms
            order = BASELINE if committed_ms is None else UNTIMED
            window.add(offset, order, first_ms, now_ms, end)
            of_group.last_commit_ms = max(of_group.last_commit_ms, first_ms)
        elif is_commit and offset != window.commits[-1].offset:
            log = self._logs.get(partition)
            if window.commits[-1].order >= 0:
                window.renumber(BASELINE + 1)
            order, end = window.commits[-1].order + 1, None if log is None else log.ends.newest
            window.add(offset, order, now_ms, now_ms, end, self.rules.min_distance_ms)
            of_group.last_commit_ms = now_ms

    def saw_owners(self, group: str, owners: Mapping[TopicPartition, tuple[str, str]], now_ms: int) -> None:
        """The members of a group's partitions, as host and client id; other partitions have none."""
        of_group = self._groups.setdefault(group, _Group(last_commit_ms=now_ms))
        for partition in owners:
            self._follower(of_group, partition)
        for partition, follower in of_group.followed.items():
            follower.owner, follower.client_id = owners.get(partition, ("", ""))

    def forget_group(self, group: str) -> None:
        """The group is gone."""
        self._groups.pop(group, None)

    def forget_offset(self, group: str, partition: TopicPartition) -> None:
        """The group's offset in a partition is gone."""
        of_group = self._groups.get(group)
        if of_group is not None:
            of_group.followed.pop(partition, None)
            if not of_group.followed:
                del self._groups[group]

    def forget_offsets_but(self, group: str, there: Iterable[TopicPartition], asked_ms: int) -> None:
        """The group had offsets in these partitions alone when it was asked for them."""
        of_group = self._groups.get(group)
        if of_group is None:
            return
        for partition in of_group.followed.keys() - set(there):
            follower = of_group.followed[partition]
            commits = follower.window.commits
            if commits and commits[-1].observed_ms >= asked_ms:
                continue
            if follower.owner or follower.client_id:
                fresh = of_group.followed[partition] = _Follower(CommitWindow(self.rules.intervals))
                fresh.owner, fresh.client_id = follower.owner, follower.client_id
            else:
                del of_group.followed[partition]

    def forget_topics_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Only these partitions are there."""
        there = set(partitions)
        for gone in self._logs.keys() - there:
            del self._logs[gone]
        for group, of_group in list(self._groups.items()):
            for gone in of_group.followed.keys() - there:
                del of_group.followed[gone]
            if not of_group.followed:
                del self._groups[group]

    # -- knowledge -------------------------------------------------------------------------------------------

    @property
    def groups(self) -> list[str]:
        """The groups that are known, sorted."""
        return sorted(self._groups)

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions whose ends are known."""
        return set(self._logs)

    def ends(self, topic: str) -> list[int] | None:
        """The newest ends of a topic's partitions in their order; None for a topic that is not known."""
        found = sorted(
            (one.partition, log.ends.newest) for one, log in self._logs.items() if one.topic == topic
        )
        return [end for _, end in found if end is not None] or None

    def window(self, group: str, partition: TopicPartition) -> tuple[Commit, ...]:
        """The commits that are kept of a group in a partition."""
        of_group = self._groups.get(group)
        follower = None if of_group is None else of_group.followed.get(partition)
        return () if follower is None else tuple(follower.window.commits)

    def expire(self, now_ms: int) -> list[str]:
        """Forget the groups without a commit for too long; their names."""
        gone = [
            group for group, one in self._groups.items() if one.last_commit_ms < now_ms - self.rules.expire_ms
        ]
        for group in gone:
            del self._groups[group]
        return gone

    def places(self) -> dict[TopicPartition, set[int]]:
        """The offsets at which groups are, of each partition that is known; none is below the log's start."""
        found: dict[TopicPartition, set[int]] = {partition: set() for partition in self._logs}
        for of_group in self._groups.values():
            for partition, follower in of_group.followed.items():
                log = self._logs.get(partition)
                offset = follower.position().offset
                if log is not None and offset is not None:
                    found[partition].add(max(offset, log.start or 0))
        return found

    def behind(self, places: Mapping[TopicPartition, set[int]]) -> list[TopicPartition]:
        """The partitions in which some group has offsets before it: their starts matter."""
        return [
            partition
            for partition, offsets in places.items()
            if offsets and min(offsets) < (self._logs[partition].ends.newest or 0)
        ]

    def wanted(self, places: Iterable[tuple[TopicPartition, set[int]]], now_ms: int) -> list[Wanted]:
        """The places whose first record is not known, or was looked for long ago: compaction may remove it.

        Forgets the records, and the times, of other places of these partitions.
        """
        found: list[Wanted] = []
        for partition, offsets in places:
            log = self._logs.get(partition)
            if log is None:
                continue
            end = log.ends.newest or 0
            if len(log.times) > 1:
                log.times.forget_below(min(offsets, default=end))
            if log.firsts:
                log.firsts = {offset: log.firsts[offset] for offset in offsets & log.firsts.keys()}
            for offset in offsets:
                if offset >= end:
                    continue
                looked_ms = None if log.first(offset) is None else log.firsts[offset].at_ms
                if looked_ms is None and _is_plain(log, offset, end):
                    continue
                if looked_ms is None or now_ms - looked_ms >= REVIEW_MS:
                    found.append(Wanted((partition, offset), end, looked_ms))
        return found

    def verdict(self, group: str, now_ms: int) -> GroupVerdict | None:
        """The verdict on a group; None for one that is not known."""
        of_group = self._groups.get(group)
        if of_group is None:
            return None
        partitions = tuple(self._partitions(of_group, now_ms))
        full = sum(one.complete == 1 for one in partitions)
        return GroupVerdict(
            group,
            group_status(one.status for one in partitions),
            full / len(partitions) if partitions else 0.0,
            partitions,
        )

    def _partitions(self, of_group: _Group, now_ms: int) -> Iterator[PartitionVerdict]:
        for partition in sorted(of_group.followed):
            follower = of_group.followed[partition]
            log = self._logs.get(partition)
            position = follower.position()
            where, waiting_ms = _where(log, position, now_ms)
            commits = follower.window.commits
            yield PartitionVerdict(
                partition,
                self._status(follower.window, log, where, now_ms),
                where,
                waiting_ms,
                position.offset,
                None if log is None else log.ends.newest,
                commits[0] if commits else None,
                commits[-1] if commits else None,
                follower.window.complete,
                follower.owner,
                follower.client_id,
            )

    def _status(self, window: CommitWindow, log: _Log | None, where: Standing, now_ms: int) -> Status:
        if not window.commits or log is None or window.complete < self.rules.minimum_complete:
            return Status.OK
        last = window.commits[-1]
        if last.order == BASELINE and now_ms - last.timestamp_ms < QUIET_MS:
            return Status.OK  # its commits' times are not known yet
        return partition_status(window.commits, log.ends.ends, where.lag or 0, now_ms, self.rules.allowed_lag)

    def _follower(self, of_group: _Group, partition: TopicPartition) -> _Follower:
        follower = of_group.followed.get(partition)
        if follower is None:
            follower = of_group.followed[partition] = _Follower(CommitWindow(self.rules.intervals))
        return follower


def _is_plain(log: _Log, offset: int, end: int) -> bool:
    """Whether the samples alone tell when the record was written, and there are records for sure."""
    bracket = log.times.written(offset)
    if bracket is None or bracket.after_ms is None:
        return False
    return bracket.before_ms - bracket.after_ms <= FINE_MS and end - offset > FEW_OFFSETS


def _where(log: _Log | None, position: _Position, now_ms: int) -> tuple[Standing, int | None]:
    """Where a group stands, and how long its next record has waited."""
    offset, told, since_ms = position
    if log is None or log.ends.newest is None or offset is None:
        return standing(offset, None, told_lag=told), None
    end = log.ends.newest
    at = max(offset, log.start or 0)
    first = log.first(at)
    # an end that was read before the offset may be lower without any harm
    later_end = end if log.read_ms > since_ms else None
    where = standing(offset, LogSpan(end, log.start, later_end), first, told)
    if not where.lag:
        return where, lag_ms(where, None, now_ms)
    record = first if isinstance(first, FirstRecord) else FirstRecord(at, None)
    return where, lag_ms(where, written_ms(log.times.written(record.offset), record.timestamp_ms), now_ms)
