"""Placement of new replicas: spread over racks and brokers, with leaders evenly distributed.

The scheme is Kafka's striped one. Racks form a circle in random order, and so do the brokers of each rack.
Each partition starts one rack after the previous one, and each rack offers the broker after the one it
offered last, so leaders and followers are even over racks and brokers, and the other replicas of a broker's
partitions are spread out. After as many partitions as there are unfenced brokers everything is shuffled
again. Fenced brokers get only the replicas that the unfenced ones of a rack can't hold, and are never
leaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.core.decisions.decision import Randomness
from ottla.core.image.image import BrokerImage
from ottla.protocol.errors import InvalidReplicationFactor

T = TypeVar("T")


@dataclass(slots=True)
class _Circle:
    """The brokers of one rack in a circle; each stripe starts one broker later."""

    brokers: list[int]
    _start: int = 0
    _taken: int = 0
    _stripe: int = -1

    def take(self, stripe: int) -> int | None:
        """The next broker of this stripe; None once the stripe has had all of them."""
        if not self.brokers:
            return None
        if stripe != self._stripe:
            self._stripe = stripe
            self._taken = 0
            self._start = (self._start + 1) % len(self.brokers)
        if self._taken == len(self.brokers):
            return None
        broker = self.brokers[(self._start + self._taken) % len(self.brokers)]
        self._taken += 1
        return broker

    def shuffle(self, random: Randomness) -> None:
        _shuffle(self.brokers, random)
        self._start = 0
        self._taken = 0
        self._stripe = -1


@dataclass(slots=True)
class _Rack:
    unfenced: _Circle = field(default_factory=lambda: _Circle([]))
    fenced: _Circle = field(default_factory=lambda: _Circle([]))

    def take(self, stripe: int) -> int | None:
        broker = self.unfenced.take(stripe)
        return broker if broker is not None else self.fenced.take(stripe)


def place_replicas(
    brokers: Sequence[BrokerImage], partition_count: int, replication_factor: int, random: Randomness
) -> list[list[int]]:
    """Replicas for `partition_count` new partitions, the preferred leader of each first.

    Brokers in controlled shutdown, or whose directories are all cordoned (KIP-1066), get none. Raises
    InvalidReplicationFactor if the other brokers are too few or all fenced.
    """
    brokers = [each for each in brokers if each.fenced or not each.in_controlled_shutdown]
    brokers = [each for each in brokers if not each.cordoned]
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories "
            "cordoned."
        )
    unfenced_count = sum(1 for broker in brokers if not broker.fenced)
    if unfenced_count == 0:
        raise InvalidReplicationFactor(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    racks = _racks(brokers, random)
    placed: list[list[int]] = []
    stripe = 0
    for index in range(partition_count):
        if unfenced_count > 1 and stripe == unfenced_count:
            _shuffle(racks, random)
            for rack in racks:
                rack.unfenced.shuffle(random)
                rack.fenced.shuffle(random)
            stripe = 0
        placed.append(_place_one(racks, index % len(racks), stripe, replication_factor))
        stripe += 1
    return placed


def _racks(brokers: Sequence[BrokerImage], random: Randomness) -> list[_Rack]:
    by_name: dict[str | None, _Rack] = {}
    for broker in sorted(brokers, key=lambda each: each.broker_id):
        rack = by_name.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.broker_id)
    racks = list(by_name.values())
    _shuffle(racks, random)
    for rack in racks:
        rack.unfenced.shuffle(random)
        rack.fenced.shuffle(random)
    return racks


def _place_one(racks: list[_Rack], first: int, stripe: int, replication_factor: int) -> list[int]:
    count = len(racks)
    # The leader: the first rack from `first` on that has an unfenced broker.
    leader_rack = first
    leader = racks[leader_rack].unfenced.take(stripe)
    while leader is None:
        leader_rack = (leader_rack + 1) % count
        leader = racks[leader_rack].unfenced.take(stripe)
    replicas = [leader]
    # The followers: round the circle; the leader's rack has had its turn in the first round.
    rack = first
    leader_rack_had_turn = False
    while len(replicas) < replication_factor:
        if rack == leader_rack and not leader_rack_had_turn:
            leader_rack_had_turn = True
        else:
            follower = racks[rack].take(stripe)
            if follower is not None:
                replicas.append(follower)
        rack = (rack + 1) % count
    return replicas


def _shuffle(items: list[T], random: Randomness) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.below(last + 1)
        items[last], items[other] = items[other], items[last]
