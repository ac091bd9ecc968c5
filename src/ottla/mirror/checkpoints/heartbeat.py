"""MirrorHeartbeat: writes signs of life of a flow into the topic `heartbeats` of its target.

Mirrors copy that topic on, so a cluster sees which others reach it, and over how many hops (KIP-382).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

import ottla
from ottla.client.access import ClusterAccess
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.clients import access
from ottla.connect.host.messages import Start
from ottla.connect.host.own_task import OwnTask
from ottla.mirror.checkpoints import settings as names
from ottla.mirror.checkpoints.beating import BeatingTask
from ottla.mirror.checkpoints.ordinary import NotRead
from ottla.mirror.checkpoints.state_topics import StateWriter, ensure_topic
from ottla.mirror.core.policies import HEARTBEATS, Flow
from ottla.mirror.core.record_formats import Heartbeat
from ottla.mirror.settings import ClientKind, Side, access_of, flow_of

SOURCE_KEY: Final = "sourceClusterAlias"
TARGET_KEY: Final = "targetClusterAlias"


class MirrorHeartbeat(NotRead):
    """One source partition, the flow, by the names that MirrorMaker 2's offsets have."""

    TABLE: ClassVar[Table] = names.HEARTBEAT_TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._flow = flow_of(settings)

    def partitions(self) -> Sequence[SourcePartition]:
        """See SourceConnector: also of a flow that copies nothing, for the one in the other direction."""
        if not self._settings[names.EMIT_HEARTBEATS]:
            return ()
        return ({SOURCE_KEY: self._flow.source_alias, TARGET_KEY: self._flow.target_alias},)

    def own_task(self, start: Start) -> OwnTask:
        """See RunsItself."""
        fallback = access(start.worker, start.config, "producer")
        client_id = f"{self._flow}|heartbeats"
        target = access_of(start.config, Side.TARGET, ClientKind.PRODUCER, client_id, fallback)
        admin = access_of(start.config, Side.TARGET, ClientKind.ADMIN, client_id, fallback)
        return BeatingTask(start.run, _Heartbeats(self._settings, self._flow, target, admin))

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        """Its task closes itself."""


class _Heartbeats:
    """Satisfies Cycles."""

    def __init__(self, settings: Settings, flow: Flow, target: ClusterAccess, admin: ClusterAccess) -> None:
        self._flow = flow
        self._target = target
        self._admin = admin
        self._interval_seconds = settings[names.EMIT_HEARTBEATS_SECONDS]
        self._replicas = settings[names.HEARTBEATS_REPLICAS]
        self._writer: StateWriter | None = None
        self._written = 0

    def cycle(self, goes_on: Callable[[], bool]) -> float:
        """See Cycles."""
        begun = time.monotonic()
        if self._writer is None:
            ensure_topic(self._admin, HEARTBEATS, self._replicas)
            self._writer = StateWriter(self._target, HEARTBEATS)
        beat = Heartbeat(self._flow.source_alias, self._flow.target_alias, time.time_ns() // 1_000_000)
        self._writer.write(beat.key(), beat.value())
        try:
            self._writer.flush()
        except BaseException:
            self.close()
            raise
        self._written += 1
        return max(0.0, begun + self._interval_seconds - time.monotonic())

    def figures(self) -> Mapping[str, float]:
        """See Cycles."""
        return {"heartbeats": float(self._written)}

    def close(self) -> None:
        """See Cycles."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
