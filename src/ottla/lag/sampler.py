"""Watches one cluster: reads ends, offsets and commits again and again, and judges the groups by them.

A round reads the ends of all partitions before the offsets of the groups, for the reason that reading.py
tells, then the starts and the next records of those that are behind, and ends with a verdict on every group.
Commits come beside it from `__consumer_offsets` where that may be read. Where not, an offset that is another
than in the round before is a commit (watching.py tells the difference). A round that fails is told, and
the next one tries again: the verdicts of before stay, with their time.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.admin.partition_offsets import EARLIEST, LATEST, FoundOffset
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.client.first_records import first_records
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType, ListedGroup
from ottla.client.groups.offsets import group_offsets
from ottla.lag.commit_log import CommitLog, LoggedCommit
from ottla.lag.core.tracker import GroupVerdict, Rules, Tracker, Wanted
from ottla.lag.reading import (
    GROUPS_A_REQUEST,
    LEADER_SECONDS,
    read_offsets,
    read_owners,
    read_pages,
)

log = logging.getLogger("ottla.lag")

GROUPS_A_TURN: Final = 50
PARTITIONS_A_TURN: Final = 2_000
"""Groups that are judged, and partitions that are looked at, before other work of the loop gets its turn."""
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Which names are watched: those that `allowed` matches, if it is given, and `denied` does not.

    An expression matches anywhere in a name, as in Burrow.
    """

    allowed: re.Pattern[str] | None = None
    denied: re.Pattern[str] | None = None

    def __call__(self, name: str) -> bool:
        if self.allowed is not None and self.allowed.search(name) is None:
            return False
        return self.denied is None or self.denied.search(name) is None


@dataclass(frozen=True, slots=True)
class SamplerOptions:
    """What is read, and how often.

    lookback_ms: how far back commits are read at first. records_a_round: the most next records that a round
    looks at. by_topic: whether commits are read in `__consumer_offsets`, as far as that is allowed.
    """

    offset_refresh_ms: int = 10_000
    topic_refresh_ms: int = 60_000
    lookback_ms: int = 600_000
    records_a_round: int = 1_000
    committed: bool = False
    by_topic: bool = True
    groups: Filter = field(default_factory=Filter)
    topics: Filter = field(default_factory=Filter)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The outcome of a round. listed: the groups as brokers list them. took_ms: of the whole round."""

    at_ms: int
    took_ms: int
    verdicts: Mapping[str, GroupVerdict]
    listed: Mapping[str, ListedGroup]
    by_topic: bool


class Sampler:
    """Watches the cluster while `run` runs. snapshot: of the last round that succeeded."""

    def __init__(self, access: ClusterAccess, rules: Rules, options: SamplerOptions) -> None:
        """Raises ClientOptionError for settings that can't be."""
        self.tracker = Tracker(rules)
        self.snapshot: Snapshot | None = None
        self.rounds = 0
        self.failed_rounds = 0
        self.problem: str | None = None
        """Why the last round failed; None after one that did not."""
        self._access = access
        self._options = options
        self._client = ClusterRequests(access)
        self._partitions: list[TopicPartition] = []
        self._topics_at_ms = 0
        self._started_ms = now_ms()
        self._commits: CommitLog | None = None
        self._ends_are_known = asyncio.Event()
        self._commits_are_tried = asyncio.Event()

    async def run(self, judged: Callable[[Snapshot], None]) -> None:
        """Watch for ever. judged: told of each round's outcome."""
        following = asyncio.create_task(self._follow_commits(), name="lag commits")
        try:
            while True:
                began = asyncio.get_running_loop().time()
                judging = asyncio.create_task(self._try_round(judged), name="lag round")
                try:
                    await asyncio.wait([judging, following], return_when=asyncio.FIRST_COMPLETED)
                    if not judging.done():
                        break
                    judging.result()
                finally:
                    judging.cancel()
                    await asyncio.wait([judging])
                took = asyncio.get_running_loop().time() - began
                pause_seconds = max(0.0, self._options.offset_refresh_ms / 1_000 - took)
                done, _ = await asyncio.wait([following], timeout=pause_seconds)
                if done:
                    break
            following.result()  # it ends by a fault alone, which is raised here
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def close(self) -> None:
        """Close the connections, when `run` has ended."""
        if self._commits is not None:
            await self._commits.close()
        await self._client.close()

    async def _try_round(self, judged: Callable[[Snapshot], None]) -> None:
        try:
            self.snapshot = await self.round()
        except ClusterError as problem:
            self.failed_rounds += 1
            if str(problem) != self.problem:
                log.warning("the cluster could not be read, the next round tries again: %s", problem)
            self.problem = str(problem)
            return
        if self.problem is not None:
            log.info("the cluster is read again")
        self.problem = None
        self.rounds += 1
        judged(self.snapshot)

    # -- a round ---------------------------------------------------------------------------------------------

    async def round(self) -> Snapshot:
        """Read and judge once. Raises ClusterError."""
        began_ms = now_ms()
        listed = {
            one.group_id: one for one in await list_groups(self._client) if self._options.groups(one.group_id)
        }
        refresh = began_ms - self._topics_at_ms >= self._options.topic_refresh_ms
        if refresh:
            await self._read_topics()
        await self._read_ends(self._partitions)
        self._ends_are_known.set()
        # whether a changed offset is a commit depends on whether commits come from the topic
        await self._commits_are_tried.wait()
        await self._read_positions(listed)
        if refresh:
            await self._take_owners(listed.values())
        await self._read_what_is_behind()
        return await self._judge(began_ms, listed)

    async def _read_topics(self) -> None:
        topics = await self._client.topics()
        there = [
            TopicPartition(topic.name, one.partition_index)
            for topic in topics
            if topic.name and not topic.error_code and self._options.topics(topic.name)
            for one in topic.partitions
        ]
        self.tracker.forget_topics_but(there)
        self._partitions = there
        self._topics_at_ms = now_ms()

    async def _read_ends(self, partitions: Sequence[TopicPartition]) -> None:
        for page in await read_pages(self._client, partitions, LATEST, committed=self._options.committed):
            for partition, end in page.found.items():
                if isinstance(end, FoundOffset):
                    self.tracker.saw_end(partition, end.offset, page.asked_ms, page.answered_ms)
            await asyncio.sleep(0)

    async def _read_positions(self, listed: Mapping[str, ListedGroup]) -> None:
        """Take in the offsets of all groups; groups and offsets that are gone are forgotten."""
        for gone in set(self.tracker.groups) - listed.keys():
            self.tracker.forget_group(gone)
        named, first = sorted(listed), self.rounds == 0
        strange, partitions = False, self.tracker.partitions
        for start in range(0, len(named), GROUPS_A_REQUEST):
            types = {name: listed[name].type for name in named[start : start + GROUPS_A_REQUEST]}
            read_ms = now_ms()
            for group, found in (await group_offsets(self._client, types)).items():
                if isinstance(found, ClusterError):
                    continue  # its coordinator moves, or it has no offsets
                is_commit = self._commits is None or types[group] is GroupType.SHARE
                committed_ms = self._started_ms - self._options.lookback_ms if first else None
                mine = {one: at for one, at in found.items() if self._options.topics(one.topic)}
                for partition, at in mine.items():
                    strange = strange or partition not in partitions
                    self.tracker.saw_position(
                        group,
                        partition,
                        at.offset,
                        read_ms,
                        lag=at.lag,
                        committed_ms=None if is_commit else committed_ms,
                        is_commit=is_commit,
                    )
                self.tracker.forget_offsets_but(group, mine, read_ms)
            await asyncio.sleep(0)
        if strange:
            self._topics_at_ms = 0  # a topic that was made since they were listed

    async def _take_owners(self, listed: Iterable[ListedGroup]) -> None:
        for group, owners in (await read_owners(self._client, listed)).items():
            mine = {
                partition: (member.host, member.client_id)
                for partition, member in owners.items()
                if self._options.topics(partition.topic)
            }
            self.tracker.saw_owners(group, mine, now_ms())

    async def _read_what_is_behind(self) -> None:
        places = self.tracker.places()
        starts = await read_offsets(self._client, self.tracker.behind(places), EARLIEST)
        for partition, start in starts.items():
            if isinstance(start, FoundOffset):
                self.tracker.saw_start(partition, start.offset)
        listed = list(self.tracker.places().items())
        unknown: list[Wanted] = []
        for begin in range(0, len(listed), PARTITIONS_A_TURN):
            unknown += self.tracker.wanted(listed[begin : begin + PARTITIONS_A_TURN], now_ms())
            await asyncio.sleep(0)
        unknown.sort(key=lambda one: one.rank)
        wanted = {one.place: one.end for one in unknown[: self._options.records_a_round]}
        found = await first_records(self._client, wanted, LEADER_SECONDS, committed=self._options.committed)
        for place, first in found.items():
            self.tracker.saw_first(place, first, wanted[place], now_ms())

    async def _judge(self, began_ms: int, listed: Mapping[str, ListedGroup]) -> Snapshot:
        at_ms = now_ms()
        self.tracker.expire(at_ms)
        verdicts = {}
        for number, group in enumerate(self.tracker.groups):
            if number % GROUPS_A_TURN == 0:
                await asyncio.sleep(0)
            verdict = self.tracker.verdict(group, at_ms)
            if verdict is not None:
                verdicts[group] = verdict
        return Snapshot(at_ms, now_ms() - began_ms, verdicts, listed, self._commits is not None)

    # -- commits ---------------------------------------------------------------------------------------------

    async def _follow_commits(self) -> None:
        """Read the commits' topic for ever, or wait for ever where offsets alone are to be asked for."""
        if not self._options.by_topic:
            self._commits_are_tried.set()
            await asyncio.Event().wait()
        await self._ends_are_known.wait()  # with which commits are compared
        pause_seconds, told = FIRST_PAUSE_SECONDS, ""
        while True:
            try:
                since_ms = now_ms() - self._options.lookback_ms
                self._commits = await CommitLog.since(self._client, self._access, since_ms)
                log.info("commits are read in __consumer_offsets")
                pause_seconds, told = FIRST_PAUSE_SECONDS, ""
                while True:
                    found = await self._commits.next()
                    if found is None:
                        # only now: a group whose commits are not read yet would look as if it had stopped
                        self._commits_are_tried.set()
                    for commit in found or ():
                        self._take(commit)
            except ClusterError as problem:
                if str(problem) != told:
                    log.warning(
                        "commits can't be read in __consumer_offsets, offsets are asked for: %s", problem
                    )
                told = str(problem)
                if isinstance(problem, NoSuchTopic):
                    pause_seconds = FIRST_PAUSE_SECONDS  # the first commit of the cluster makes it
            finally:
                self._commits_are_tried.set()
                commits, self._commits = self._commits, None
                if commits is not None:
                    await commits.close()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    def _take(self, commit: LoggedCommit) -> None:
        if not self._options.groups(commit.group) or not self._options.topics(commit.partition.topic):
            return
        if commit.offset is None:
            self.tracker.forget_offset(commit.group, commit.partition)
            return
        self.tracker.saw_commit(
            commit.group,
            commit.partition,
            commit.offset,
            order=commit.order,
            timestamp_ms=commit.timestamp_ms,
            now_ms=now_ms(),
        )
