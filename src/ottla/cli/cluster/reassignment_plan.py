"""Decides which brokers get the replicas of partitions: spread evenly, moved as little as that takes.

A replica stays where it is while its broker is among those allowed and has no more than its share. Missing
ones go to the broker with the fewest, on a rack that the partition does not have yet if there is one. The
first replica, which leads by preference, is the one whose broker leads least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Assignment: TypeAlias = dict[tuple[str, int], list[int]]
"""Topic and partition -> replicas, the preferred leader first."""


class ImpossiblePlan(ValueError):
    """There is no such assignment of replicas; one line that says why."""


def plan_reassignment(
    current: Assignment,
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> Assignment:
    """The replicas of these partitions, including those that stay as they are. Raises ImpossiblePlan."""
    wanted = {
        partition: len(replicas) if replication_factor is None else replication_factor
        for partition, replicas in current.items()
    }
    most = max(wanted.values(), default=0)
    if most > len(brokers):
        raise ImpossiblePlan(f"{most} replicas do not fit on {len(brokers)} brokers")
    share = -(-sum(wanted.values()) // len(brokers)) if brokers else 0
    held: Counter[int] = Counter()
    planned: Assignment = {}
    for partition, replicas in sorted(current.items()):
        kept: list[int] = []
        for replica in replicas:
            if replica in brokers and held[replica] < share and len(kept) < wanted[partition]:
                kept.append(replica)
                held[replica] += 1
        planned[partition] = kept
    for partition, replicas in planned.items():
        while len(replicas) < wanted[partition]:
            chosen = _next(replicas, current[partition], brokers, racks, held)
            replicas.append(chosen)
            held[chosen] += 1
    return _with_leaders(planned)


def replace_broker(
    current: Assignment, broker: int, others: Sequence[int], racks: Mapping[int, str | None]
) -> Assignment:
    """New replicas for the partitions that a broker holds, without it. Raises ImpossiblePlan."""
    held = Counter(replica for replicas in current.values() for replica in replicas)
    planned: Assignment = {}
    for partition, replicas in sorted(current.items()):
        if broker not in replicas:
            continue
        left = [replica for replica in replicas if replica != broker]
        if not set(others) - set(left):
            raise ImpossiblePlan(
                f"{partition[0]}-{partition[1]} has replicas on all other brokers already: reduce its "
                "replication factor first, or add a broker"
            )
        chosen = _next(left, left, others, racks, held)
        held[chosen] += 1
        planned[partition] = [chosen if replica == broker else replica for replica in replicas]
    return planned


def _next(
    replicas: Sequence[int],
    before: Sequence[int],
    brokers: Sequence[int],
    racks: Mapping[int, str | None],
    held: Mapping[int, int],
) -> int:
    """The broker for one more replica: a new rack, the fewest replicas, the data already, the lowest id."""
    taken = {racks.get(replica) for replica in replicas}
    return min(
        (broker for broker in brokers if broker not in replicas),
        key=lambda broker: (racks.get(broker) in taken, held[broker], broker not in before, broker),
    )


def _with_leaders(planned: Assignment) -> Assignment:
    """The same replicas with leadership spread."""
    leads: Counter[int] = Counter()
    result: Assignment = {}
    for partition, replicas in planned.items():
        leader = min(replicas, key=lambda replica: (leads[replica], replicas.index(replica)))
        leads[leader] += 1
        result[partition] = [leader, *(replica for replica in replicas if replica != leader)]
    return result
