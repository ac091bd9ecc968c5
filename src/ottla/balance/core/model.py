"""A cluster as the planner sees it: brokers with their capacities, partitions with their loads.

Loads are of the leader's point of view: bytes per second that producers write (`rate_in`) and that consumers
read (`rate_out`). What each replica costs its broker follows from them:

    disk            the size, on each replica
    network in      rate_in, on each replica: followers copy what the leader takes
    network out     on the leader: rate_out, and rate_in for each follower
    potential out   the same, on each replica: what the broker would send if it led all that it holds
    CPU             `cpu` on the leader, `cpu_follower` on the others, in percent of one broker
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final


class Dimension(enum.IntEnum):
    """What is counted of each broker."""

    REPLICAS = 0
    DISK = 1
    NW_IN = 2
    NW_OUT = 3
    CPU = 4
    POTENTIAL_OUT = 5
    LEADERS = 6
    LEADER_IN = 7


DIMENSIONS: Final = len(Dimension)
ROLE_DIMENSIONS: Final = frozenset({Dimension.NW_OUT, Dimension.CPU, Dimension.LEADERS, Dimension.LEADER_IN})
"""Those that a change of the leader moves, without a byte on the way."""
Load = tuple[float, float, float, float, float, float, float, float]


class BrokerState(enum.Enum):
    """What the planner may do with a broker.

    NEW: the only place for replicas when brokers are added. DEMOTED: holds replicas and leads nothing.
    REMOVED: alive, and left by all. DEAD: left by all, and no source of copies.
    """

    ALIVE = "alive"
    NEW = "new"
    DEMOTED = "demoted"
    REMOVED = "removed"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a broker can take: bytes, bytes per second, percent; None where nobody has told."""

    disk: float | None = None
    nw_in: float | None = None
    nw_out: float | None = None
    cpu: float | None = None

    def of(self, dimension: Dimension) -> float | None:
        """The capacity of one dimension; None for one that has none."""
        match dimension:
            case Dimension.DISK:
                return self.disk
            case Dimension.NW_IN:
                return self.nw_in
            case Dimension.NW_OUT | Dimension.POTENTIAL_OUT:
                return self.nw_out
            case Dimension.CPU:
                return self.cpu
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker. rack: None is a rack of its own."""

    id: int
    rack: str | None = None
    capacity: Capacity = Capacity()
    state: BrokerState = BrokerState.ALIVE
    host: str = ""

    @property
    def takes_replicas(self) -> bool:
        """Whether replicas may come to it, or stay."""
        return self.state in (BrokerState.ALIVE, BrokerState.NEW, BrokerState.DEMOTED)

    @property
    def may_lead(self) -> bool:
        """Whether it may lead partitions."""
        return self.state in (BrokerState.ALIVE, BrokerState.NEW)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. replicas: broker ids, the preferred leader first. leader: None without one.

    behind: brokers whose replica can't lead now, out of sync. offline: whose replica's disk has failed.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int | None
    size: int = 0
    rate_in: float = 0.0
    rate_out: float = 0.0
    cpu: float = 0.0
    cpu_follower: float = 0.0
    behind: frozenset[int] = frozenset()
    offline: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """As logs name it, `orders-3`."""
        return f"{self.topic}-{self.partition}"

    def loads(self) -> tuple[Load, Load]:
        """What the leader costs its broker, and what a follower does."""
        out = self.rate_out + self.rate_in * (len(self.replicas) - 1)
        leader = (1.0, float(self.size), self.rate_in, out, self.cpu, out, 1.0, self.rate_in)
        follower = (1.0, float(self.size), self.rate_in, 0.0, self.cpu_follower, out, 0.0, 0.0)
        return leader, follower


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """The whole cluster at a moment."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]

    def broker(self, broker_id: int) -> Broker | None:
        """A broker by its id; None if there is none."""
        return next((one for one in self.brokers if one.id == broker_id), None)

    def loads(self) -> dict[int, Load]:
        """The load of each broker, with the leaders as they are."""
        sums = {one.id: [0.0] * DIMENSIONS for one in self.brokers}
        for partition in self.partitions:
            leader, follower = partition.loads()
            for replica in partition.replicas:
                if replica in sums:
                    values = leader if replica == partition.leader else follower
                    of_broker = sums[replica]
                    for index, value in enumerate(values):
                        of_broker[index] += value
        return {broker: _load(values) for broker, values in sums.items()}


def _load(values: list[float]) -> Load:
    a, b, c, d, e, f, g, h = values
    return a, b, c, d, e, f, g, h


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits of the goals.

    usable: of a broker's capacity, how much may be used (hard). max_replicas: of one broker (hard).
    band: how far above and below its share a broker may be, 1.1 for 10 % (soft), by dimension.
    topic_band, topic_least_gap: replicas of one topic on a broker, in shares, and at least so many above it.
    min_leaders: topic -> the least leaders of it on each broker that may lead (hard).
    extra: bytes that soft goals may move beyond what must be moved, as a part of that; None for any amount.
    """

    usable: Mapping[Dimension, float] = field(
        default_factory=lambda: {
            Dimension.DISK: 0.8,
            Dimension.NW_IN: 0.8,
            Dimension.NW_OUT: 0.8,
            Dimension.CPU: 0.7,
        }
    )
    max_replicas: int = 10_000
    band: Mapping[Dimension, float] = field(default_factory=lambda: dict.fromkeys(Dimension, 1.1))
    topic_band: float = 3.0
    topic_least_gap: int = 2
    min_leaders: Mapping[str, int] = field(default_factory=dict)
    extra: float | None = 0.1


class Purpose(enum.Enum):
    """What a plan is for. FIT: the hard goals alone. REPLICAS: another number of replicas for topics."""

    BALANCE = "balance"
    ADD = "add"
    REMOVE = "remove"
    DEMOTE = "demote"
    FIX_OFFLINE = "fix-offline"
    FIT = "fit"
    REPLICAS = "replicas"


def topics_of(model: ClusterModel) -> Iterator[str]:
    """The names of the topics, each once."""
    return iter(dict.fromkeys(one.topic for one in model.partitions))
