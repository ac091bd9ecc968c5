"""Groups, transactions and share groups that this broker coordinates, and the loads of their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.tables import broker as table

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
    from ottla.broker.coordinators.group_coordinator import GroupCoordinator
    from ottla.broker.coordinators.share_coordinator import ShareCoordinator
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.share.share_partitions import SharePartitions

BREATHE_EVERY: Final = 500
_CLASSIC: Final = {
    "PreparingRebalance": table.GROUPS_PREPARING,
    "CompletingRebalance": table.GROUPS_COMPLETING,
    "Stable": table.GROUPS_STABLE,
    "Empty": table.GROUPS_EMPTY,
    "Dead": table.GROUPS_DEAD,
}


class CoordinatorsNode(Protocol):
    """What is read of the node."""

    @property
    def groups(self) -> GroupCoordinator:
        """The groups."""
        ...

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids."""
        ...

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The states of share partitions."""
        ...

    @property
    def loaded_share_partitions(self) -> SharePartitions | None:
        """The share partitions served here; None before the first."""
        ...


class CoordinatorMetrics:
    """The source of the coordinators' metrics."""

    def __init__(self, node: CoordinatorsNode) -> None:
        self._node = node

    def read(self) -> Iterator[Family | None]:
        """The families of groups, transactions and share groups."""
        yield from self._loads()
        yield from self._groups()
        yield from self._transactions()
        yield from self._share()

    def _loads(self) -> Iterator[Family]:
        node = self._node
        routings: dict[str, CoordinatorRouting] = {
            "group": node.groups.shards,
            "transaction": node.transactions.shards,
            "share": node.share_coordinator.shards,
        }
        states: Counter[tuple[str, str]] = Counter()
        for name, routing in routings.items():
            for runner in routing.runners:
                states[name, "serving" if runner.serving else "loading"] += 1
        yield Family(table.COORDINATOR_PARTITIONS, list(states.items()))
        loads = {name: each.loads for name, each in routings.items()}
        yield by_label(table.COORDINATOR_LOADS, {name: each.count for name, each in loads.items()})
        yield by_label(table.COORDINATOR_LOAD_SECONDS, {name: each.seconds for name, each in loads.items()})
        yield by_label(
            table.COORDINATOR_LOAD_MAX, {name: each.longest_seconds for name, each in loads.items()}
        )

    def _groups(self) -> Iterator[Family | None]:
        shards = self._node.groups.shards
        states: Counter[tuple[str, str]] = Counter()
        members: Counter[str] = Counter()
        offsets = seen = 0
        for runner in shards.runners:
            for kind, state, count in runner.shard.members:  # type: ignore[attr-defined]
                states[kind.value, state] += 1
                members[kind.value] += count
                seen += 1
                if not seen % BREATHE_EVERY:
                    yield None
            for count in runner.shard.offset_counts:  # type: ignore[attr-defined]
                offsets += count
                seen += 1
                if not seen % BREATHE_EVERY:
                    yield None
        classic = {state: count for (kind, state), count in states.items() if kind == "classic"}
        yield single(table.GROUPS, sum(classic.values()))
        for state, metric in _CLASSIC.items():
            yield single(metric, classic.get(state, 0))
        yield single(table.OFFSETS, offsets)
        yield Family(table.GROUP_STATES, list(states.items()))
        yield by_label(table.GROUP_MEMBERS, members)
        yield by_label(table.REBALANCES, shards.rebalances)

    def _transactions(self) -> Iterator[Family | None]:
        states: Counter[str] = Counter()
        seen = 0
        for runner in self._node.transactions.shards.runners:
            for transaction in list(runner.shard.transactions.values()):  # type: ignore[attr-defined]
                states[transaction.state.name] += 1
                seen += 1
                if not seen % BREATHE_EVERY:
                    yield None
        yield by_label(table.TRANSACTIONS, states)

    def _share(self) -> Iterator[Family]:
        share = self._node.loaded_share_partitions
        if share is None:
            return
        leaders = share.leaders()
        yield single(table.SHARE_PARTITIONS, len(leaders))
        yield single(table.SHARE_SESSIONS, len(share.sessions))
        yield single(table.SHARE_IN_FLIGHT, sum(each.machine.in_flight_count for each in leaders))
        yield single(table.SHARE_ACQUIRED, share.counters.acquired_records)
        yield single(table.SHARE_DEAD_LETTERS, share.counters.dead_letters)
        yield single(table.SHARE_LOST_DEAD_LETTERS, share.counters.lost_dead_letters)
