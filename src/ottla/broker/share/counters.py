"""Counts the work of share groups on this broker since it started."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ShareCounters:
    """Counts the work of share groups on this broker since it started."""

    fetches: int = 0
    failed_fetches: int = 0
    acquired_records: int = 0
    acknowledge_requests: int = 0
    failed_acknowledgements: int = 0
    acknowledged_records: Counter[int] = field(default_factory=Counter)
    """By acknowledge type."""
    dead_letters: int = 0
    """Records written to the topics of groups for them."""
    lost_dead_letters: int = 0
    """Records that a group's settings, or its topic, kept from being written."""
    loaded_partitions: int = 0
    ended_by_disconnect: int = 0
