"""Whatever the cluster: plans keep replicas apart, move what must move, and never worsen a hard goal."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.balance.core.goals import Goal
from ottla.balance.core.model import (
    Broker,
    BrokerState,
    Capacity,
    ClusterModel,
    Dimension,
    Partition,
    Purpose,
    Rules,
)
from ottla.balance.core.planner import plan_balance
from ottla.balance.core.scope import Scope

STATES = [BrokerState.ALIVE] * 6 + [BrokerState.DEAD, BrokerState.REMOVED, BrokerState.DEMOTED]


@st.composite
def clusters(draw: st.DrawFn) -> ClusterModel:
    count = draw(st.integers(1, 9))
    racks = draw(st.integers(0, 4))
    capacity = Capacity(disk=draw(st.sampled_from([None, 1_000.0, 4_000.0])))
    brokers = tuple(
        Broker(one, f"r{one % racks}" if racks else None, capacity, draw(st.sampled_from(STATES)))
        for one in range(count)
    )
    partitions = []
    for number in range(draw(st.integers(0, 40))):
        replicas = tuple(draw(st.permutations(range(count))))[: draw(st.integers(1, min(3, count)))]
        alive = [one for one in replicas if brokers[one].state is not BrokerState.DEAD]
        behind = frozenset(draw(st.sets(st.sampled_from(replicas), max_size=1)))
        leader = next((one for one in alive if one not in behind), None)
        rate = draw(st.integers(0, 100))
        partitions.append(
            Partition(
                f"t{number % 3}",
                number,
                replicas,
                leader,
                draw(st.integers(0, 200)),
                rate,
                2 * rate,
                behind=behind,
            )
        )
    return ClusterModel(brokers, tuple(partitions))


@settings(max_examples=80, deadline=None)
@given(clusters(), st.sampled_from(Purpose), st.sampled_from([None, 0.0, 0.1]))
def test_a_plan_keeps_its_word(model: ClusterModel, purpose: Purpose, extra: float | None) -> None:
    plan = plan_balance(model, Rules(extra=extra), purpose)
    states = {one.id: one.state for one in model.brokers}
    placed = {(one.topic, one.partition): one.replicas for one in model.partitions}
    behind = {(one.topic, one.partition): one.behind for one in model.partitions}
    for change in plan.changes:
        assert placed[change.topic, change.partition] == change.before
        assert len(set(change.after)) == len(change.after) == len(change.before)
        for broker in change.adds:
            assert states[broker] in (BrokerState.ALIVE, BrokerState.NEW, BrokerState.DEMOTED)
        if change.changes_leader and change.after[0] in change.before and change.after[0] != change.before[0]:
            assert change.after[0] not in behind[change.topic, change.partition]
        placed[change.topic, change.partition] = change.after
    assert plan.bytes_moved >= 0
    _has_left(model, placed, {line.split(" ")[0].rstrip(":") for line in plan.problems}, purpose)
    _loads_are_those_of_the_replicas(model, placed, plan.after)
    if purpose is Purpose.DEMOTE:
        assert plan.bytes_moved == 0


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    brokers = st.frozensets(st.integers(0, 8), max_size=5)
    return Scope(
        draw(
            st.sampled_from([frozenset(Goal), frozenset({Goal.DISK}), frozenset({Goal.RACKS, Goal.LEADERS})])
        ),
        draw(st.frozensets(st.sampled_from(["t0", "t1", "t2"]))),
        draw(st.none() | brokers),
        draw(brokers),
    )


@settings(max_examples=120, deadline=None)
@given(clusters(), st.sampled_from(Purpose), st.sampled_from([None, 0.1]), scopes())
def test_a_plan_keeps_within_its_scope(
    model: ClusterModel, purpose: Purpose, extra: float | None, scope: Scope
) -> None:
    """Excluded topics change only where they must; replicas come to destinations alone."""
    plan = plan_balance(model, Rules(extra=extra), purpose, scope)
    by_id = {one.id: one for one in model.brokers}
    assert {one.goal for one in plan.goals} == scope.goals
    for change in plan.changes:
        assert all(scope.may_get(broker) for broker in change.adds)
        if change.topic not in scope.fixed_topics:
            continue
        assert not any(by_id[broker].takes_replicas for broker in change.removes)
        if change.changes_leader and change.leader is not None and not change.removes:
            assert not by_id[change.leader].may_lead
    if Goal.RACKS not in scope.goals and purpose in (Purpose.DEMOTE, Purpose.FIX_OFFLINE):
        assert not any(by_id[broker].takes_replicas for one in plan.changes for broker in one.removes)


def _has_left(
    model: ClusterModel, placed: dict[tuple[str, int], tuple[int, ...]], told: set[str], purpose: Purpose
) -> None:
    """Replicas have left dead and removed brokers and full racks, or the plan says why not."""
    open_racks = {one.rack or f"broker {one.id}" for one in model.brokers if one.takes_replicas}
    by_id = {one.id: one for one in model.brokers}
    for (topic, partition), replicas in placed.items():
        if f"{topic}-{partition}" in told:
            continue
        if purpose is Purpose.REMOVE:
            assert all(by_id[one].state is not BrokerState.REMOVED for one in replicas)
        if purpose in (Purpose.BALANCE, Purpose.FIX_OFFLINE, Purpose.FIT):
            assert all(by_id[one].takes_replicas for one in replicas)
            racks = Counter(by_id[one].rack or f"broker {one}" for one in replicas)
            assert max(racks.values()) <= -(-len(replicas) // len(open_racks))


def _loads_are_those_of_the_replicas(
    model: ClusterModel, placed: dict[tuple[str, int], tuple[int, ...]], told: object
) -> None:
    assert isinstance(told, dict)
    disk: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    for one in model.partitions:
        replicas = placed[one.topic, one.partition]
        for broker in replicas:
            disk[broker] += one.size
    for broker, load in told.items():
        assert abs(load[Dimension.DISK] - disk[broker]) < 1e-6
        leaders[broker] = round(load[Dimension.LEADERS])
    assert sum(leaders.values()) == len(model.partitions)


@settings(max_examples=30, deadline=None)
@given(clusters())
def test_a_plan_of_a_plan_moves_nothing_that_must(model: ClusterModel) -> None:
    """What had to move has moved: of the cluster after it, nothing is displaced."""
    plan = plan_balance(model, Rules(), Purpose.FIX_OFFLINE)
    after = {(one.topic, one.partition): one.after for one in plan.changes}
    moved = ClusterModel(
        model.brokers,
        tuple(
            Partition(one.topic, one.partition, new, new[0], one.size)
            for one in model.partitions
            for new in [after.get((one.topic, one.partition), one.replicas)]
            if not any(line.startswith((f"{one.name}:", f"{one.name} ")) for line in plan.problems)
        ),
    )
    assert plan_balance(moved, Rules(), Purpose.FIX_OFFLINE).bytes_moved == 0
