"""Throttles of moves: set where nobody has set one, taken away where they are still as they were set.

Brokers get a rate (leader. and follower.replication.throttled.rate); topics name the replicas that it holds
for: of a partition that moves, those that are there send, those that come receive. Taking away deletes a rate
only if it is the execution's, and of a topic's list only the execution's pairs, so it can be done again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.balance.core.plan import Change
from ottla.client.admin.configs import (
    Change as ConfigChange,
)
from ottla.client.admin.configs import (
    ConfigEntry,
    ConfigSource,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
ALL: Final = "*"
Pairs = dict[str, dict[str, list[str]]]
"""Topic -> setting -> its `partition:broker` pairs."""


def brokers_of(changes: Iterable[Change]) -> list[int]:
    """The brokers that send or receive copies."""
    return sorted({broker for one in changes if one.adds for broker in (*one.before, *one.adds)})


def pairs_of(changes: Iterable[Change]) -> Pairs:
    """The replicas to throttle."""
    found: Pairs = defaultdict(lambda: {LEADERS: [], FOLLOWERS: []})
    for one in changes:
        if one.adds:
            of_topic = found[one.topic]
            of_topic[LEADERS] += [f"{one.partition}:{broker}" for broker in one.before]
            of_topic[FOLLOWERS] += [f"{one.partition}:{broker}" for broker in one.adds]
    return found


async def without_rate(client: ClusterRequests, brokers: Sequence[int]) -> tuple[int, ...]:
    """Those of the brokers, alive, for which nobody has set a rate. Raises ClusterError."""
    alive = set((await client.cluster(refresh=True)).brokers)
    found = []
    for broker in brokers:
        if broker in alive:
            entries = await _entries(client, _broker(broker), RATES)
            if not any(_is_set(one) for one in entries.values()):
                found.append(broker)
    return tuple(found)


async def set_throttles(
    client: ClusterRequests, changes: Sequence[Change], brokers: Iterable[int], rate: int
) -> None:
    """Set the rate on these brokers, and name the replicas. Raises ClusterError."""
    wanted: dict[Resource, Sequence[ConfigChange]] = {
        _broker(broker): [ConfigChange(name, Operation.SET, str(rate)) for name in RATES]
        for broker in brokers
    }
    for topic, settings in pairs_of(changes).items():
        entries = await _entries(client, _topic(topic), (LEADERS, FOLLOWERS))
        altered = []
        for name, pairs in settings.items():
            there = _list(entries.get(name))
            if ALL not in there:
                value = ",".join(dict.fromkeys([*there, *pairs]))
                altered.append(ConfigChange(name, Operation.SET, value))
        if altered:
            wanted[_topic(topic)] = altered
    for problem in (await alter_configs(client, wanted)).values():
        if problem is not None:
            raise problem


async def remove_throttles(
    client: ClusterRequests, changes: Sequence[Change], brokers: Iterable[int], rate: int
) -> list[int]:
    """Take the throttle away; the brokers on which that did not succeed, as they are down say."""
    left: list[int] = []
    for broker in brokers:
        try:
            entries = await _entries(client, _broker(broker), RATES)
            mine = [name for name, one in entries.items() if _is_set(one) and one.value == str(rate)]
            await _delete(client, {_broker(broker): mine})
        except ClusterError:
            left.append(broker)
    for topic, settings in pairs_of(changes).items():
        try:
            entries = await _entries(client, _topic(topic), (LEADERS, FOLLOWERS))
        except ClusterError:
            continue  # the topic was deleted, and its settings with it
        altered = []
        for name, pairs in settings.items():
            there = _list(entries.get(name))
            rest = [one for one in there if one not in set(pairs)]
            if rest != there:
                value = ",".join(rest)
                operation = Operation.SET if rest else Operation.DELETE
                altered.append(ConfigChange(name, operation, value or None))
        if altered:
            await alter_configs(client, {_topic(topic): altered})
    return left


async def _delete(client: ClusterRequests, names: Mapping[Resource, Sequence[str]]) -> None:
    changes = {
        resource: [ConfigChange(name, Operation.DELETE) for name in each]
        for resource, each in names.items()
        if each
    }
    if changes:
        for problem in (await alter_configs(client, changes)).values():
            if problem is not None:
                raise problem


async def _entries(
    client: ClusterRequests, resource: Resource, names: Sequence[str]
) -> dict[str, ConfigEntry]:
    """The resource's settings of these names. Raises ClusterError."""
    found = (await describe_configs(client, [resource], names=names)).get(resource, [])
    if isinstance(found, ClusterError):
        raise found
    return {one.name: one for one in found}


def _is_set(entry: ConfigEntry) -> bool:
    return entry.source in (ConfigSource.BROKER, ConfigSource.ALL_BROKERS)


def _list(entry: ConfigEntry | None) -> list[str]:
    if entry is None or entry.source is not ConfigSource.TOPIC:
        return []
    return [one.strip() for one in (entry.value or "").split(",") if one.strip()]


def _broker(broker: int) -> Resource:
    return Resource(ResourceType.BROKER, str(broker))


def _topic(topic: str) -> Resource:
    return Resource(ResourceType.TOPIC, topic)
