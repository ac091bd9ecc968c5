"""The two topics of an audit, as whoever comes first creates them."""

from __future__ import annotations

from typing import Final

from ottla.client.audit.reports import REPORTS_TOPIC

COUNTS_TOPIC: Final = "_audit_counts"
PARTITIONS: Final = 1
"""One: a counter's word that it has caught up must come behind the counts that it is about."""
_WEEK_MS: Final = "604800000"

TOPIC_SETTINGS: Final = {
    REPORTS_TOPIC: {"cleanup.policy": "compact,delete", "retention.ms": _WEEK_MS},
    COUNTS_TOPIC: {"cleanup.policy": "delete", "retention.ms": _WEEK_MS, "max.message.bytes": "8388608"},
}
