"""The subscriptions of one client, and the packet in which it gets a message by them.

They are of QoS 0 or 1: 1 is granted to those that ask for 2. A message that several of them match comes once,
in the highest QoS of these that is not above its own, with the identifiers of all. One that has expired, or
that is larger than the client takes, does not come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import Publish, SubscriptionRequest, Version
from ottla.mqtt.core.properties import NO_PROPERTIES, Properties, Property
from ottla.mqtt.core.topics import matches

MOST_QOS: Final = 1
"""Of what subscribers are sent."""

Place = tuple[str, int]
"""A Kafka topic and a partition of it."""
At = tuple[Place, int]
"""Where a record is: its offset in a partition."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that Kafka has. publisher: the client's identifier. age_seconds: since it was written.

    at: None for a message that is at no place of its own, which is sent with QoS 0.
    """

    message: Message
    publisher: str
    age_seconds: float
    at: At | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """begins: the offsets from which on it counts, in partitions that its session has yet to read there."""

    request: SubscriptionRequest
    identifier: int | None = None
    begins: Mapping[Place, int] = field(default_factory=dict)
    levels: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.request.filter.split("/")))

    def has(self, at: At | None) -> bool:
        """Whether a record is not from before its begin."""
        return at is None or not self.begins or at[1] >= self.begins.get(at[0], 0)


class Subscriptions:
    """Of one client, by their filters."""

    def __init__(self) -> None:
        self._all: dict[str, Subscription] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, filter_: str) -> bool:
        return filter_ in self._all

    @property
    def filters(self) -> Collection[str]:
        """All filters."""
        return tuple(self._all)

    @property
    def all(self) -> Collection[Subscription]:
        """All of them."""
        return self._all.values()

    @property
    def are_acknowledged(self) -> bool:
        """Whether any is of QoS 1."""
        return any(each.request.qos for each in self._all.values())

    def add(
        self,
        request: SubscriptionRequest,
        identifier: int | None,
        begins: Mapping[Place, int] | None = None,
    ) -> None:
        """Begin a subscription, in place of that with the same filter, whose begin it keeps."""
        former = self._all.get(request.filter)
        if former is not None:
            begins = former.begins
        self.put(Subscription(request, identifier, begins or {}))

    def put(self, subscription: Subscription) -> None:
        """Have this one, in place of that with the same filter."""
        self._all[subscription.request.filter] = subscription

    def forget_begins(self) -> None:
        """All partitions are read behind the begins."""
        for filter_, each in self._all.items():
            if each.begins:
                self._all[filter_] = replace(each, begins={})

    def discard(self, filter_: str) -> None:
        """End a subscription."""
        self._all.pop(filter_, None)

    def packet(self, arrived: Arrived, client_id: str, version: Version) -> Publish | None:
        """The packet for a message; None if the client does not get it."""
        message = arrived.message
        matching = [
            each
            for each in self._all.values()
            if not (each.request.no_local and arrived.publisher == client_id)
            and matches(each.levels, message.topic)
            and each.has(arrived.at)
        ]
        if not matching:
            return None
        retain = message.retain and any(each.request.retain_as_published for each in matching)
        return _packet(arrived, matching, version, retain=retain)

    def retained_packet(
        self, filter_: str, arrived: Arrived, client_id: str, version: Version
    ) -> Publish | None:
        """The packet for a retained message that a new subscription matches; None if it is not sent."""
        found = self._all.get(filter_)
        if found is None or (found.request.no_local and arrived.publisher == client_id):
            return None
        return _packet(arrived, [found], version, retain=True)


def _packet(
    arrived: Arrived, matching: list[Subscription], version: Version, *, retain: bool
) -> Publish | None:
    """The packet of a message by these subscriptions; None if it has expired.

    A message that stands at no offset is of QoS 0: none could be sent again.
    """
    message = arrived.message
    properties: Properties = NO_PROPERTIES
    if message.properties or version is Version.V5:
        expiry = message.properties.get(Property.MESSAGE_EXPIRY_INTERVAL)
        left = None if expiry is None else expiry - int(arrived.age_seconds)
        if left is not None and left <= 0:
            return None
        if version is Version.V5:
            properties = _properties(message.properties, left, matching)
    qos = 0 if arrived.at is None else max(min(each.request.qos, message.qos) for each in matching)
    return Publish(message.topic, message.payload, min(qos, MOST_QOS), retain=retain, properties=properties)


def _properties(given: Properties, left: int | None, matching: list[Subscription]) -> Properties:
    identifiers = tuple(each.identifier for each in matching if each.identifier is not None)
    if left is None and not identifiers:
        return given
    found: dict[Property, Any] = dict(given)
    if left is not None:
        found[Property.MESSAGE_EXPIRY_INTERVAL] = left
    if identifiers:
        found[Property.SUBSCRIPTION_IDENTIFIER] = identifiers
    return found
