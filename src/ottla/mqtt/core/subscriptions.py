"""The subscriptions of one client, and the packet in which it gets a message by them.

All are of QoS 0: that is granted, whatever is asked for. A message that several of them match comes once,
with the identifiers of all. One that has expired, or that is larger than the client takes, does not come.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import Publish, SubscriptionRequest, Version
from ottla.mqtt.core.properties import NO_PROPERTIES, Properties, Property
from ottla.mqtt.core.topics import matches


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message that Kafka has. publisher: the client's identifier. age_seconds: since it was written."""

    message: Message
    publisher: str
    age_seconds: float


@dataclass(frozen=True, slots=True)
class _Subscription:
    levels: tuple[str, ...]
    no_local: bool
    retain_as_published: bool
    identifier: int | None


class Subscriptions:
    """Of one client, by their filters."""

    def __init__(self) -> None:
        self._all: dict[str, _Subscription] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, filter_: str) -> bool:
        return filter_ in self._all

    @property
    def filters(self) -> Collection[str]:
        """All filters."""
        return tuple(self._all)

    def add(self, request: SubscriptionRequest, identifier: int | None) -> None:
        """Begin a subscription, in place of that with the same filter."""
        levels = tuple(request.filter.split("/"))
        self._all[request.filter] = _Subscription(
            levels, request.no_local, request.retain_as_published, identifier
        )

    def discard(self, filter_: str) -> None:
        """End a subscription."""
        self._all.pop(filter_, None)

    def packet(self, arrived: Arrived, client_id: str, version: Version) -> Publish | None:
        """The packet for a message; None if the client does not get it."""
        message = arrived.message
        matching = [
            each
            for each in self._all.values()
            if not (each.no_local and arrived.publisher == client_id) and matches(each.levels, message.topic)
        ]
        if not matching:
            return None
        retain = message.retain and any(each.retain_as_published for each in matching)
        return _packet(arrived, matching, version, retain=retain)

    def retained_packet(
        self, filter_: str, arrived: Arrived, client_id: str, version: Version
    ) -> Publish | None:
        """The packet for a retained message that a new subscription matches; None if it is not sent."""
        found = self._all.get(filter_)
        if found is None or (found.no_local and arrived.publisher == client_id):
            return None
        return _packet(arrived, [found], version, retain=True)


def _packet(
    arrived: Arrived, matching: list[_Subscription], version: Version, *, retain: bool
) -> Publish | None:
    """The packet of a message by these subscriptions; None if it has expired."""
    message = arrived.message
    properties: Properties = NO_PROPERTIES
    if message.properties or version is Version.V5:
        expiry = message.properties.get(Property.MESSAGE_EXPIRY_INTERVAL)
        left = None if expiry is None else expiry - int(arrived.age_seconds)
        if left is not None and left <= 0:
            return None
        if version is Version.V5:
            properties = _properties(message.properties, left, matching)
    return Publish(message.topic, message.payload, retain=retain, properties=properties)


def _properties(given: Properties, left: int | None, matching: list[_Subscription]) -> Properties:
    identifiers = tuple(each.identifier for each in matching if each.identifier is not None)
    if left is None and not identifiers:
        return given
    found: dict[Property, Any] = dict(given)
    if left is not None:
        found[Property.MESSAGE_EXPIRY_INTERVAL] = left
    if identifiers:
        found[Property.SUBSCRIPTION_IDENTIFIER] = identifiers
    return found
