"""The settings of a group shard as plain values; names and defaults are Kafka's broker settings.

`Settings.of(group_id)` gives a group's own: the broker's, overridden by the group's configs (resource GROUP).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

MAX_INT = 2**31 - 1

SettingValue: TypeAlias = int | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Units are in the names. The comment gives the broker setting if the name alone does not."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = MAX_INT  # group.max.size
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms
    new_member_join_timeout_ms: int = 300_000
    """How long a member whose first join is still parked may stay silent; fixed in Kafka too."""

    # group.consumer.*
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = MAX_INT
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000

    # group.share.*
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000

    # group.streams.*
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_assignment_interval_ms: int = 1_000
    streams_max_size: int = MAX_INT
    streams_num_standby_replicas: int = 0
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_assignor: str = "sticky"  # streams.assignor.name, else the first of group.streams.assignors
    streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    streams_task_offset_interval_ms: int = 60_000
    streams_acceptable_recovery_lag: int = 10_000
    streams_keeps_topology_descriptions: bool = False  # group.streams.topology.description.plugin.class


#: The configs of the resource GROUP that a shard uses -> the field that they override.
OVERRIDABLE: dict[str, str] = {
    "consumer.session.timeout.ms": "consumer_session_timeout_ms",
    "consumer.heartbeat.interval.ms": "consumer_heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "consumer_assignment_interval_ms",
    "share.session.timeout.ms": "share_session_timeout_ms",
    "share.heartbeat.interval.ms": "share_heartbeat_interval_ms",
    "share.assignment.interval.ms": "share_assignment_interval_ms",
    "streams.acceptable.recovery.lag": "streams_acceptable_recovery_lag",
    "streams.assignor.name": "streams_assignor",
    "streams.rack.aware.assignment.tags": "streams_rack_aware_assignment_tags",
    "streams.session.timeout.ms": "streams_session_timeout_ms",
    "streams.task.offset.interval.ms": "streams_task_offset_interval_ms",
    "streams.heartbeat.interval.ms": "streams_heartbeat_interval_ms",
    "streams.assignment.interval.ms": "streams_assignment_interval_ms",
    "streams.num.standby.replicas": "streams_num_standby_replicas",
    "streams.initial.rebalance.delay.ms": "streams_initial_rebalance_delay_ms",
}


class Settings:
    """The broker's settings and the overrides of single groups; replaced as a whole, never changed."""

    __slots__ = ("_groups", "_overrides", "broker")

    def __init__(
        self, broker: GroupSettings, overrides: Mapping[str, Mapping[str, SettingValue]] | None = None
    ) -> None:
        """`overrides`: group id -> config name (see OVERRIDABLE) -> parsed value; not changed afterwards."""
        self.broker = broker
        self._overrides = overrides or {}
        self._groups: dict[str, GroupSettings] = {}
        """Made at the first use of a group; at most as many as there are overrides."""

    def of(self, group_id: str) -> GroupSettings:
        """The settings of one group."""
        values = self._overrides.get(group_id)
        if values is None:
            return self.broker
        settings = self._groups.get(group_id)
        if settings is None:
            fields = {OVERRIDABLE[name]: value for name, value in values.items()}
            settings = self._groups[group_id] = replace(self.broker, **fields)  # type: ignore[arg-type]
        return settings
