"""The settings a group shard works by, as plain numbers; names and defaults are Kafka's broker settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Units are in the names. The comment gives the broker setting where the name alone does not."""

    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 1_800_000  # group.max.session.timeout.ms
    max_size: int = 2**31 - 1  # group.max.size
    offset_metadata_max_bytes: int = 4_096  # offset.metadata.max.bytes
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms
    new_member_join_timeout_ms: int = 300_000
    """How long a member whose first join is still waiting may stay silent; fixed in Kafka too."""
