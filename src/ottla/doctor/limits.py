"""The limits beyond which a figure is a fault; `ottla doctor --limit NAME=NUMBER` changes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ottla.config.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that checks compare with."""

    leaders_over_mean: float = 1.5
    """A broker that leads so many times the mean of all brokers is skewed."""
    leaders_more_than_mean: float = 10
    """… and at least so many partitions more than the mean."""
    not_preferred_part: float = 0.1
    """The part of all partitions led by another than their preferred leader."""
    disk_over_mean: float = 1.5
    """A broker whose logs are so many times the mean of all brokers is skewed."""
    disk_skew_bytes: float = 1 << 30
    """… and at least so many bytes more than the mean."""
    partition_over_median: float = 5
    """A partition that is so many times as large as the median of its topic is skewed."""
    partition_skew_bytes: float = 256 << 20
    """… and at least so large."""
    replicas_a_broker: float = 4_000
    """Replicas of one broker."""
    disk_free_part: float = 0.15
    """The part of a disk that is to be free; a third of it is critical."""
    disk_hours: float = 72
    """A disk that is full earlier is told; within a sixth of it is critical."""
    segment_bytes: float = 1 << 20
    """A smaller segment.bytes is tiny."""
    segment_seconds: float = 60
    """A shorter segment.ms is tiny."""
    compacted_segments: float = 10
    """Segments of an internal compacted partition, above which compaction does not keep up."""
    voter_behind_seconds: float = 10
    """For a voter or a broker to have caught up with the metadata's leader."""
    loss_hours: float = 24
    """Records that retention deletes within so many hours, before their group has read them."""
    transaction_minutes: float = 10
    """For which a transaction is open."""
    producers_a_partition: float = 2_000
    """Producer ids that one partition keeps."""
    certificate_days: float = 30
    """A certificate that ends earlier is told."""
    token_hours: float = 24
    """A delegation token that ends earlier is told."""
    clock_seconds: float = 2
    """Between two clocks, beyond the uncertainty of the measurement."""

    def with_values(self, values: Mapping[str, str]) -> Limits:
        """The limits with some values of the user's. Raises UsageError."""
        known = {each.name for each in fields(self)}
        found: dict[str, float] = {}
        for name, text in values.items():
            if name not in known:
                raise UsageError(f"there is no limit {name}; there are {', '.join(sorted(known))}")
            try:
                found[name] = float(text)
            except ValueError:
                raise UsageError(f"the limit {name}={text} is not a number") from None
            if not 0 <= found[name] < float("inf"):
                raise UsageError(f"the limit {name}={text} is not a number from 0 on")
        return replace(self, **found)
