"""What `ottla mqtt` counts, as plain integers that a scrape reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.histogram import Histogram
from ottla.metrics.tables import mqtt as table


@dataclass(slots=True)
class MqttFigures:
    """Of one service. stored_seconds: times from messages to their acknowledgement."""

    connections: int = 0
    clients: Counter[str] = field(default_factory=Counter)
    connects: Counter[str] = field(default_factory=Counter)
    disconnects: Counter[str] = field(default_factory=Counter)
    messages: Counter[tuple[int, str]] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)
    sessions: Counter[str] = field(default_factory=Counter)
    wills: int = 0
    stored_seconds: Histogram = field(default_factory=lambda: Histogram(1e-6))
    under_way: int = 0
    under_way_bytes: int = 0
    pauses: int = 0
    packets_received: int = 0
    packets_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    retained: int = 0
    retained_bytes: int = 0
    retained_left_out: int = 0

    def families(self) -> Iterator[Family]:
        """All metrics."""
        yield by_label(table.CLIENTS, dict(self.clients))
        yield single(table.CONNECTIONS, self.connections)
        yield by_label(table.CONNECTS, dict(self.connects))
        yield by_label(table.DISCONNECTS, dict(self.disconnects))
        yield Family(table.MESSAGES, [(key, count) for key, count in self.messages.items()])
        yield by_label(table.DELIVERIES, dict(self.deliveries))
        yield by_label(table.SESSIONS, dict(self.sessions))
        yield single(table.WILLS, self.wills)
        yield single(table.STORE_SECONDS, self.stored_seconds)
        yield single(table.UNDER_WAY, self.under_way)
        yield single(table.UNDER_WAY_BYTES, self.under_way_bytes)
        yield single(table.PAUSES, self.pauses)
        yield single(table.RETAINED, self.retained)
        yield single(table.RETAINED_BYTES, self.retained_bytes)
        yield single(table.RETAINED_LEFT_OUT, self.retained_left_out)
