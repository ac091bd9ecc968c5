"""Series of clients' metrics for scrapes: the last value of each, counters summed up, all of it bounded.

A client that pushes deltas has the sum of them here, so that a rate can be taken. Names and labels are made
those of Prometheus. A series goes when its client has not pushed for three intervals, a minute at the least.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.core.telemetry.subscriptions import ClientProperties

CLIENT_LABELS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
)
"""The labels of every series that tell its client."""
NAMES_BEGIN: Final = "org_apache_kafka_"
"""How the names of KIP-714 begin."""
MAX_SERIES: Final = 100_000
"""The most series of all clients together; the client without a push for longest goes first."""
MAX_NAME_CHARACTERS: Final = 256
MAX_LABELS: Final = 8
MAX_VALUE_CHARACTERS: Final = 256

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")


class Point(NamedTuple):
    """One value of a client's metric.

    is_counter: it only grows. is_delta: the value is the difference since the last push.
    """

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    is_delta: bool


class SeriesKey(NamedTuple):
    """A series of one client: Prometheus' name, names and values of labels in the order of the names."""

    name: str
    labels: tuple[tuple[str, str], ...]


class _Value(NamedTuple):
    value: float
    is_counter: bool


class ExposedSeries(NamedTuple):
    """All series of one name. labels: their names; each sample has as many values, the client's first."""

    name: str
    is_counter: bool
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]]


@dataclass(slots=True)
class _ClientValues:
    client: tuple[str, ...]
    expires_at_ms: int = 0
    values: dict[SeriesKey, _Value] = field(default_factory=dict)


class ClientSeries:
    """The series of the clients of one broker."""

    def __init__(self, most_of_a_client: int, most: int = MAX_SERIES) -> None:
        self.dropped_points = 0
        """Points since the start that found no room, or have no usable name."""
        self._most_of_a_client = most_of_a_client
        self._most = most
        self._count = 0
        self._clients: OrderedDict[str, _ClientValues] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def take(
        self,
        client: ClientProperties,
        points: Iterable[tuple[SeriesKey | None, Point]],
        now_ms: int,
        life_ms: int,
    ) -> None:
        """Take over a push: points with their series, kept for `life_ms` if no other push follows."""
        found = self._clients.get(client.client_instance_id)
        if found is None:
            told = tuple((getattr(client, label) or "")[:MAX_VALUE_CHARACTERS] for label in CLIENT_LABELS)
            found = self._clients[client.client_instance_id] = _ClientValues(told)
        found.expires_at_ms = now_ms + life_ms
        self._clients.move_to_end(client.client_instance_id)
        for key, point in points:
            self._take(found, key, point)
        while self._count > self._most and len(self._clients) > 1:
            self._forget(next(iter(self._clients)))

    def _take(self, client: _ClientValues, key: SeriesKey | None, point: Point) -> None:
        if key is None:
            self.dropped_points += 1
            return
        former = client.values.get(key)
        if former is None:
            if len(client.values) >= self._most_of_a_client:
                self.dropped_points += 1
                return
            self._count += 1
        added_to = former.value if point.is_delta and former is not None else 0.0
        client.values[key] = _Value(added_to + point.value, point.is_counter)

    def expire(self, now_ms: int) -> None:
        """Forget the clients that push no more."""
        for name in [name for name, each in self._clients.items() if each.expires_at_ms <= now_ms]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._count -= len(self._clients.pop(name).values)

    def exposed(self) -> Iterator[ExposedSeries | None]:
        """All series by name, and None where the caller may let others work.

        A name that is a counter of some clients and a gauge of others is a gauge.
        """
        by_name: dict[str, list[tuple[tuple[str, ...], SeriesKey, _Value]]] = {}
        for client in list(self._clients.values()):
            for key, value in client.values.items():
                by_name.setdefault(key.name, []).append((client.client, key, value))
            yield None
        for name, found in by_name.items():
            further = sorted({label for _, key, _ in found for label, _ in key.labels})
            samples = []
            for told, key, value in found:
                own = dict(key.labels)
                samples.append(((*told, *(own.get(label, "") for label in further)), value.value))
            is_counter = all(value.is_counter for _, _, value in found)
            yield ExposedSeries(name, is_counter, (*CLIENT_LABELS, *further), samples)


def series_key(point: Point) -> SeriesKey | None:
    """The series of a point; None for a name or labels that can't be exposed."""
    if not point.name or len(point.name) > MAX_NAME_CHARACTERS or len(point.attributes) > MAX_LABELS:
        return None
    labels = {}
    for name, value in point.attributes:
        label = prometheus_name(name)
        # A client's own idea of its id must not stand in for the broker's.
        if label in CLIENT_LABELS or label in ("le", "quantile") or label.startswith("__"):
            label = f"attribute_{label.lstrip('_')}"
        labels[label] = value[:MAX_VALUE_CHARACTERS]
    name = prometheus_name(point.name)
    if not name.startswith(NAMES_BEGIN):  # it must not be taken for a metric of this process
        name = f"client_{name}"
    return SeriesKey(name, tuple(sorted(labels.items())))


def prometheus_name(name: str) -> str:
    """The name of a metric or label with every other character than letters, digits and _ replaced by _."""
    found = _NOT_IN_NAMES.sub("_", name)
    return f"_{found}" if not found or found[0].isdigit() else found
