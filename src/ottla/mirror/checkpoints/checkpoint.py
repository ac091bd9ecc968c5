"""MirrorCheckpoint: tells the places of the source's groups on the target, and moves idle groups there.

Its tasks share the groups by a hash of their names, so a new group starts no task again. A task reads the
offset syncs and the checkpoints that are there to their ends, and then goes round: groups, syncs, commits,
checkpoints, offsets. Whatever order a kill leaves behind, a checkpoint is a place at which no record is lost.

A topic that came from the target (`A.orders` in the flow B->A) is translated back, by the offset syncs of the
flow A->B: so groups that moved to B come home to A.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import ottla
from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.client.groups.model import ListedGroup
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.core.planning import tasks_max
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.clients import access
from ottla.connect.host.messages import Start
from ottla.connect.host.own_task import OwnTask
from ottla.mirror.checkpoints import settings as names
from ottla.mirror.checkpoints.beating import BeatingTask
from ottla.mirror.checkpoints.group_reading import asked, commits_of, committed_for, listed_groups
from ottla.mirror.checkpoints.ordinary import NotRead
from ottla.mirror.checkpoints.state_topics import StateReader, StateWriter, ensure_topic
from ottla.mirror.checkpoints.translating import SyncSource, Translating
from ottla.mirror.core.checkpoint_rules import GroupCheckpoints, offsets_to_sync
from ottla.mirror.core.patterns import Selection
from ottla.mirror.core.policies import Flow
from ottla.mirror.core.record_formats import Checkpoint, FormatError
from ottla.mirror.settings import (
    EMIT_SYNCS,
    ENABLED,
    SYNCS_LOCATION,
    ClientKind,
    Side,
    access_of,
    flow_of,
)

TASK_KEY: Final = "task"
TASKS_KEY: Final = "tasks"

_log = logging.getLogger("ottla.mirror")


class MirrorCheckpoint(NotRead):
    """Its source partitions are shares of the groups: {"task": 0, "tasks": 4}."""

    TABLE: ClassVar[Table] = names.CHECKPOINT_TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._flow = flow_of(settings)

    def partitions(self) -> Sequence[SourcePartition]:
        """See SourceConnector."""
        wanted = self._settings[names.EMIT_CHECKPOINTS] or self._settings[names.SYNC_OFFSETS]
        if not (self._settings[ENABLED] and wanted and self._settings[EMIT_SYNCS]):
            return ()
        count = tasks_max(self._settings.texts())
        return [{TASK_KEY: task, TASKS_KEY: count} for task in range(count)]

    def own_task(self, start: Start) -> OwnTask:
        """See RunsItself."""
        shares = [(int(each[TASK_KEY]), int(each[TASKS_KEY])) for each in start.partitions]
        return BeatingTask(start.run, Checkpoints(self._settings, self._flow, clusters_of(start), shares))

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        """Its tasks close themselves."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """How the two clusters of a flow are reached, for each kind of clients."""

    source_admin: ClusterAccess
    source_consumer: ClusterAccess
    target_admin: ClusterAccess
    target_consumer: ClusterAccess
    target_producer: ClusterAccess


def clusters_of(start: Start) -> Clusters:
    """The clusters of a task. Raises ConfigError."""
    fallback = access(start.worker, start.config, "producer")
    name = f"{start.run.connector}-{start.run.task}|checkpoints"

    def of(side: Side, kind: ClientKind) -> ClusterAccess:
        target = fallback if side is Side.TARGET else None
        return access_of(start.config, side, kind, name, target)

    return Clusters(
        of(Side.SOURCE, ClientKind.ADMIN),
        of(Side.SOURCE, ClientKind.CONSUMER),
        of(Side.TARGET, ClientKind.ADMIN),
        of(Side.TARGET, ClientKind.CONSUMER),
        of(Side.TARGET, ClientKind.PRODUCER),
    )


@dataclass(slots=True)
class _Group:
    """A group that is followed. current: its checkpoints of the last look, for the offsets on the target."""

    checkpoints: GroupCheckpoints = field(default_factory=GroupCheckpoints)
    current: list[Checkpoint] = field(default_factory=list)


class Checkpoints:
    """Satisfies Cycles: one task's share of the groups."""

    def __init__(
        self, settings: Settings, flow: Flow, clusters: Clusters, shares: Iterable[tuple[int, int]]
    ) -> None:
        self._settings = settings
        self._clusters = clusters
        self._shares = tuple(shares)
        self._topic = flow.policy.checkpoints_topic(flow.source_alias)
        self._selection: Selection = names.groups_of(settings)
        at_source = settings[SYNCS_LOCATION] == Side.SOURCE
        consumers = (clusters.source_consumer, clusters.target_consumer)
        here, there = consumers if at_source else reversed(consumers)
        self._translating = Translating(
            flow,
            SyncSource(here, flow.policy.offset_syncs_topic(_other(flow, at_source))),
            SyncSource(there, flow.policy.offset_syncs_topic(_other(flow, not at_source))),
        )
        self._known = StateReader(clusters.target_consumer, self._topic, self._forget, self._take)
        self._groups: dict[str, _Group] = {}
        self._followed: tuple[str, ...] = ()
        self._writer: StateWriter | None = None
        self._is_read = False
        self._refresh_at = self._emit_at = self._sync_at = 0.0
        self._counts = {"checkpoints": 0.0, "group-offsets": 0.0, "groups": 0.0}

    def cycle(self, goes_on: Callable[[], bool]) -> float:
        """See Cycles."""
        self._prepare(goes_on)
        if not goes_on():
            return 0.0
        now = time.monotonic()
        if now >= self._refresh_at:
            self._refresh()
            again = self._settings[names.REFRESH_GROUPS_SECONDS]
            self._refresh_at = now + again if self._settings[names.REFRESH_GROUPS] else float("inf")
        if now >= self._emit_at:
            self._emit(goes_on)
            self._emit_at = now + self._settings[names.EMIT_CHECKPOINTS_SECONDS]
        if self._settings[names.SYNC_OFFSETS] and now >= self._sync_at and goes_on():
            self._sync()
            self._sync_at = now + self._settings[names.SYNC_OFFSETS_SECONDS]
        due = [self._refresh_at, self._emit_at]
        if self._settings[names.SYNC_OFFSETS]:
            due.append(self._sync_at)
        return max(0.0, min(due) - time.monotonic())

    def figures(self) -> Mapping[str, float]:
        """See Cycles."""
        return {**self._counts, "groups": float(len(self._followed))}

    def close(self) -> None:
        """See Cycles."""
        self._translating.close()
        self._known.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # -- the topic of checkpoints ---------------------------------------------------------------------

    def _prepare(self, goes_on: Callable[[], bool]) -> None:
        """The topic of checkpoints, and what stands in it: none of them is taken back."""
        if not self._settings[names.EMIT_CHECKPOINTS]:
            return
        if self._writer is None:
            ensure_topic(self._clusters.target_admin, self._topic, self._settings[names.CHECKPOINTS_REPLICAS])
            self._writer = StateWriter(self._clusters.target_producer, self._topic)
        if not self._is_read:
            self._known.read_to_end(goes_on)
            self._known.close()
            self._is_read = goes_on()

    def _forget(self) -> None:
        self._groups.clear()

    def _take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        try:
            found = Checkpoint.read(key, value)
        except FormatError as problem:
            _log.warning("a record of topic %s is no checkpoint: %s", self._topic, problem)
            return
        if self._is_mine(found.group):
            self._of(found.group).checkpoints.take(found)

    # -- the round ------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        groups = asked(self._clusters.source_admin, listed_groups)
        self._followed = tuple(
            sorted(each for each in groups if self._is_mine(each) and self._selection.takes(each))
        )
        for gone in self._groups.keys() - groups.keys():
            self._groups[gone].current = []

    def _is_mine(self, group: str) -> bool:
        number = zlib.crc32(group.encode())
        return any(number % count == task for task, count in self._shares)

    def _of(self, group: str) -> _Group:
        return self._groups.setdefault(group, _Group())

    def _emit(self, goes_on: Callable[[], bool]) -> None:
        if not self._followed:
            return
        self._translating.read(goes_on)
        found = asked(self._clusters.source_admin, lambda it: commits_of(it, self._followed))
        written: list[tuple[_Group, Checkpoint]] = []
        for name, commits in found.items():
            group = self._of(name)
            due = group.checkpoints.due(name, commits, self._translating.translate)
            written += [(group, each) for each in due]
        if self._settings[names.EMIT_CHECKPOINTS]:
            self._write([each for _, each in written])
        for group, each in written:
            group.checkpoints.take(each)
        self._counts["checkpoints"] += len(written)
        for name, commits in found.items():
            group = self._of(name)
            group.current = group.checkpoints.of(self._translating.renamed(commits))

    def _write(self, checkpoints: Sequence[Checkpoint]) -> None:
        assert self._writer is not None
        try:
            for each in checkpoints:
                while not self._writer.write(each.key(), each.value()):
                    self._writer.flush()
            self._writer.flush()
        except ClusterError:
            self._writer.close()
            self._writer = None
            raise

    def _sync(self) -> None:
        """Set the offsets of idle groups on the target: never back, never of a group with members."""
        wanted = {name: self._groups[name].current for name in self._followed if name in self._groups}
        wanted = {name: checkpoints for name, checkpoints in wanted.items() if checkpoints}
        if not wanted:
            return

        async def sync(requests: ClusterRequests) -> int:
            states: Mapping[str, ListedGroup] = await listed_groups(requests)
            idle = [name for name in wanted if offsets_to_sync(_state(states, name), {}, wanted[name])]
            commits = await commits_of(requests, idle)
            count = 0
            for name, there in commits.items():
                offsets = offsets_to_sync(
                    _state(states, name), {place: each.offset for place, each in there.items()}, wanted[name]
                )
                if offsets:
                    count += await committed_for(requests, name, offsets, wanted[name])
            return count

        self._counts["group-offsets"] += asked(self._clusters.target_admin, sync)


def _state(states: Mapping[str, ListedGroup], group: str) -> str | None:
    found = states.get(group)
    return None if found is None else found.state or "Unknown"


def _other(flow: Flow, at_source: bool) -> str:
    """The cluster that a topic of offset syncs is named after: the one at the other end."""
    return flow.target_alias if at_source else flow.source_alias
