"""MirrorSource: the connector that MirrorMaker 2 has as MirrorSourceConnector.

Its tasks copy whole batches (task.py) unless the configuration has transforms, or converters other than of
bytes: then records go through the connector host as any other source's do. A configuration that names no
converters copies bytes, whatever converters the worker has for its other connectors.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

import ottla
from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError
from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.data.record import SourceOffset, SourcePartition, SourceRecord
from ottla.connect.host import clients
from ottla.connect.host.messages import Start
from ottla.connect.host.own_task import OwnTask
from ottla.connect.host.settings import Tolerance, connector_settings, error_settings
from ottla.connect.plugins.api import RetriableError
from ottla.mirror import settings as names
from ottla.mirror.checkpoints.sync_writing import open_offset_syncs
from ottla.mirror.core.following import TopicRule
from ottla.mirror.offset_sync_hook import NoOffsetSyncs, OffsetSyncs, SyncPlace
from ottla.mirror.settings import ClientKind, Side, access_of, client_properties, flow_of
from ottla.mirror.source import settings as own
from ottla.mirror.source.dead_letters import DeadLetters
from ottla.mirror.source.fetching import FetchSettings
from ottla.mirror.source.following import Follower, FollowSettings
from ottla.mirror.source.places import source_partition
from ottla.mirror.source.reading import read_records
from ottla.mirror.source.task import MirrorTask, TaskParts

BYTES_CONVERTER: Final = "ByteArrayConverter"
READ_UNCOMMITTED: Final = "read_uncommitted"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_JAVAS: Final = f"org.apache.kafka.connect.converters.{BYTES_CONVERTER}"


class MirrorSource:
    """Copies the topics of a source cluster, partition by partition."""

    TABLE: ClassVar[Table] = own.TABLE
    VERSION: ClassVar[str] = ottla.__version__
    CONVERTERS: ClassVar[Mapping[str, str]] = dict.fromkeys(_CONVERTERS, _JAVAS)

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._config = settings.texts()
        self._flow = flow_of(settings)
        self._follower: Follower | None = None

    # -- the connector ---------------------------------------------------------------------------------------

    def partitions(self) -> Sequence[SourcePartition]:
        """See SourceConnector: the partitions that both clusters have."""
        if not self._settings[names.ENABLED]:
            return ()
        if self._follower is None:
            self._follower = self._made_follower()
        try:
            found = asyncio.run(self._follower.look())
        except ClusterError as problem:
            raise RetriableError(str(problem)) from problem
        return [source_partition(self._flow.source_alias, each) for each in found]

    def _made_follower(self) -> Follower:
        settings = self._settings

        def every(enabled: bool, seconds: int) -> float | None:
            return float(seconds) if enabled else None

        rule = TopicRule(self._flow, own.selections_of(settings), settings[own.HEARTBEATS])
        follow = FollowSettings(
            rule,
            settings[own.REPLICATION_FACTOR],
            every(settings[own.REFRESH_TOPICS], settings[own.REFRESH_TOPICS_SECONDS]),
            every(settings[own.SYNC_CONFIGS], settings[own.SYNC_CONFIGS_SECONDS]),
            every(settings[own.SYNC_ACLS], settings[own.SYNC_ACLS_SECONDS]),
            settings[own.DEFAULTS_FROM] == Side.SOURCE,
            settings[names.ADMIN_TIMEOUT_MS] / 1_000,
        )
        return Follower(self._access(Side.SOURCE, ClientKind.ADMIN), self._target_admin(), follow)

    def _access(self, side: Side, kind: ClientKind) -> ClusterAccess:
        client_id = f"{self._flow}|{self._config.get('name', 'mirror')}|{kind}"
        return access_of(self._config, side, kind, client_id)

    def _target_admin(self) -> ClusterAccess:
        return self._access(Side.TARGET, ClientKind.ADMIN)

    # -- tasks -----------------------------------------------------------------------------------------------

    def own_task(self, start: Start) -> OwnTask | None:
        """See RunsItself: None where records have to be looked at."""
        if not copies_bytes(start):
            return None
        settings = self._settings
        producer = clients.access(start.worker, start.config, "producer").with_client_id(
            f"connector-producer-{start.run.connector}-{start.run.task}"
        )
        parts = TaskParts(
            self._flow,
            self._access(Side.SOURCE, ClientKind.CONSUMER),
            producer,
            self._fetching(),
            settings[own.COMMIT_INTERVAL_MS] / 1_000,
            functools.partial(self._syncs, start),
            self._dead_letters(start),
            _loop_factory(),
        )
        try:
            return MirrorTask(start, parts)
        except ValueError as problem:
            raise ConfigError(str(problem)) from None

    def _fetching(self) -> FetchSettings:
        given = client_properties(self._config, Side.SOURCE, ClientKind.CONSUMER)
        defaults = FetchSettings()
        wait_ms = min(self._settings[own.POLL_TIMEOUT_MS], defaults.max_wait_ms)
        try:
            return FetchSettings(
                committed=given.get("isolation.level", "").lower() != READ_UNCOMMITTED,
                max_wait_ms=int(given.get("fetch.max.wait.ms", wait_ms)),
                min_bytes=int(given.get("fetch.min.bytes", defaults.min_bytes)),
                max_bytes=int(given.get("fetch.max.bytes", defaults.max_bytes)),
                partition_max_bytes=int(given.get("max.partition.fetch.bytes", defaults.partition_max_bytes)),
                bytes_per_second=self._settings[own.BANDWIDTH],
                from_latest=given.get("auto.offset.reset", "earliest").lower() == "latest",
            )
        except ValueError as problem:
            raise ConfigError(f"a property of the source's consumer is no number: {problem}") from None

    def _syncs(self, start: Start) -> OffsetSyncs:
        settings = self._settings
        if not settings[names.EMIT_SYNCS]:
            return NoOffsetSyncs()
        side = Side(settings[names.SYNCS_LOCATION])
        flow = self._flow
        other = flow.target_alias if side is Side.SOURCE else flow.source_alias
        client_id = f"{flow}|{start.run.connector}-{start.run.task}|offset-syncs"
        access = access_of(self._config, side, ClientKind.PRODUCER, client_id)
        return open_offset_syncs(
            SyncPlace(access, flow.policy.offset_syncs_topic(other), self._config, client_id)
        )

    def _dead_letters(self, start: Start) -> DeadLetters | None:
        errors = error_settings(connector_settings(start))
        if errors.tolerance is not Tolerance.ALL:
            return None
        topic = errors.dead_letter_topic or f"mm2-dead-letters.{self._flow.source_alias}.internal"
        replicas = self._settings[own.REPLICATION_FACTOR]
        return DeadLetters(topic, replicas, self._target_admin(), start.run.connector, start.run.task)

    # -- records, where they have to be looked at ------------------------------------------------------------

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        """See SourceConnector."""
        access = self._access(Side.SOURCE, ClientKind.CONSUMER)
        return read_records(self._flow, access, self._fetching(), partition, offset)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """See SourceConnector: the source keeps nothing for us."""

    def close(self) -> None:
        """See SourceConnector."""


def copies_bytes(start: Start) -> bool:
    """Whether a configuration changes nothing in records."""
    if start.config.get("transforms", "").strip():
        return False
    return all(
        start.config.get(name, BYTES_CONVERTER).rpartition(".")[2] == BYTES_CONVERTER for name in _CONVERTERS
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop
