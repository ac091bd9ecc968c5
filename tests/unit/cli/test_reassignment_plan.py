"""Where replicas are to go: evenly, on different racks, and no more of them moved than that takes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.cluster.reassignment_plan import (
    Assignment,
    ImpossiblePlan,
    plan_reassignment,
    replace_broker,
)

NO_RACKS: dict[int, str | None] = {}


def topic(*replicas: list[int]) -> Assignment:
    return {("t", index): list(each) for index, each in enumerate(replicas)}


def moved(before: Assignment, after: Assignment) -> int:
    return sum(len(set(after[each]) - set(before[each])) for each in after)


def test_new_brokers_get_their_share_and_no_more() -> None:
    before = topic([1, 2], [2, 1], [1, 2], [2, 1])
    after = plan_reassignment(before, [1, 2, 3, 4], NO_RACKS)
    held = Counter(replica for replicas in after.values() for replica in replicas)
    assert held == {1: 2, 2: 2, 3: 2, 4: 2}
    assert moved(before, after) == 4


def test_what_is_even_stays() -> None:
    before = topic([1, 2], [2, 3], [3, 1])
    assert plan_reassignment(before, [1, 2, 3], NO_RACKS) == before


def test_more_replicas_go_to_other_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    after = plan_reassignment(topic([1], [3]), [1, 2, 3, 4], racks, replication_factor=2)
    for replicas in after.values():
        assert len({racks[replica] for replica in replicas}) == 2


def test_fewer_replicas() -> None:
    after = plan_reassignment(topic([1, 2, 3], [2, 3, 1], [3, 1, 2]), [1, 2, 3], NO_RACKS, 1)
    assert sorted(replicas[0] for replicas in after.values()) == [1, 2, 3]


def test_a_broker_is_replaced_where_it_is() -> None:
    before = topic([5, 1], [1, 2], [2, 5])
    after = replace_broker(before, 5, [1, 2, 3], NO_RACKS)
    assert after == {("t", 0): [3, 1], ("t", 2): [2, 3]} or after == {("t", 0): [3, 1], ("t", 2): [2, 1]}
    assert all(5 not in replicas for replicas in after.values())


def test_what_can_not_be_had() -> None:
    with pytest.raises(ImpossiblePlan, match="3 replicas do not fit on 2 brokers"):
        plan_reassignment(topic([1, 2, 3]), [1, 2], NO_RACKS)
    with pytest.raises(ImpossiblePlan, match="t-0 has replicas on all other brokers already"):
        replace_broker(topic([1, 2, 3]), 3, [1, 2], NO_RACKS)


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=20),
    st.sets(st.integers(1, 6), min_size=3),
    st.one_of(st.none(), st.integers(1, 3)),
)
def test_every_plan_is_one(replicas: list[list[int]], allowed: set[int], factor: int | None) -> None:
    before = topic(*replicas)
    after = plan_reassignment(before, sorted(allowed), NO_RACKS, factor)
    assert after.keys() == before.keys()
    for partition, chosen in after.items():
        assert len(chosen) == len(set(chosen)) == (factor or len(before[partition]))
        assert set(chosen) <= allowed
