"""What the group coordinator gives to the runner of its shards (coordinator_shard.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator_shard import ShardFamily
from ottla.core.coordination.api import Moment
from ottla.core.groups.responses import coordinator_error
from ottla.core.groups.settings import GroupSettings, Settings
from ottla.core.groups.shard import Shard
from ottla.core.metadata import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records.framing import Coordinator

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def group_family(broker: Broker) -> ShardFamily:
    """The shards of `__consumer_offsets`."""

    def make(_: Moment) -> Shard:
        return Shard(Settings(group_settings(broker)))

    return ShardFamily(
        coordinator=Coordinator.GROUP,
        name="groups",
        codec=Codec(broker.config[broker_settings.OFFSETS_TOPIC_COMPRESSION_CODEC]),
        make=make,
        refuse=coordinator_error,
        needs_random_bits=frozenset({ApiKey.JOIN_GROUP}),
    )


def group_settings(broker: Broker) -> GroupSettings:
    """The broker's settings for groups."""
    config = broker.config
    return GroupSettings(
        initial_rebalance_delay_ms=config[broker_settings.GROUP_INITIAL_REBALANCE_DELAY_MS],
        min_session_timeout_ms=config[broker_settings.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[broker_settings.GROUP_MAX_SESSION_TIMEOUT_MS],
        max_size=config[broker_settings.GROUP_MAX_SIZE],
        offset_metadata_max_bytes=config[broker_settings.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=config[broker_settings.OFFSETS_RETENTION_MINUTES] * 60_000,
        offsets_retention_check_interval_ms=config[broker_settings.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        commit_timeout_ms=config[broker_settings.OFFSETS_COMMIT_TIMEOUT_MS],
    )
