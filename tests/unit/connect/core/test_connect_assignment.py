"""Assignments of connectors and tasks: complete, balanced, and never to two workers."""

from __future__ import annotations

import random

from ottla.connect.core.assignment import Memory, assign
from ottla.connect.core.ids import CONNECTOR, TaskId


def everything(connectors: int, tasks: int) -> list[TaskId]:
    names = [f"c{number}" for number in range(connectors)]
    return [TaskId(name, task) for task in range(CONNECTOR, tasks) for name in names]


def rounds(
    configured: list[TaskId], claims: dict[str, list[TaskId]], memory: Memory, generation: int
) -> tuple[dict[str, list[TaskId]], Memory, int]:
    """Let workers do as they are told until nothing moves; how many rounds that took."""
    for count in range(1, 8):
        outcome = assign(configured, claims, memory, generation, 0, 0)
        memory, generation = outcome.memory, generation + 1
        after = {member: list(ids) for member, ids in outcome.assigned.items()}
        if after == claims and not any(outcome.revoked.values()):
            return after, memory, count
        claims = after
    raise AssertionError("it does not settle")


def test_one_worker_gets_everything_at_once() -> None:
    configured = everything(3, 2)
    outcome = assign(configured, {"a": []}, Memory(), 1, 0, 0)
    assert sorted(outcome.assigned["a"]) == sorted(configured)
    assert outcome.delay_ms == 0


def test_a_new_worker_gets_its_share_and_only_that_moves() -> None:
    configured = everything(4, 2)
    claims, memory, _ = rounds(configured, {"a": []}, Memory(), 1)
    before = set(claims["a"])
    after, _, _ = rounds(configured, {**claims, "b": []}, memory, 10)
    assert len(after["a"]) == len(after["b"]) == 6
    assert set(after["a"]) <= before


def test_the_tasks_of_a_worker_that_has_gone_are_given_out_at_once() -> None:
    configured = everything(4, 2)
    claims, memory, _ = rounds(configured, {"a": [], "b": []}, Memory(), 1)
    outcome = assign(configured, {"a": claims["a"]}, memory, 10, 0, 0)
    assert sorted(outcome.assigned["a"]) == sorted(configured)


def test_with_a_delay_they_are_kept_back_until_it_is_over() -> None:
    configured = everything(2, 1)
    both = assign(configured, {"a": [], "b": []}, Memory(), 1, 0, 60_000)
    claims = {member: list(ids) for member, ids in both.assigned.items()}
    lost = assign(configured, {"a": claims["a"]}, both.memory, 2, 1_000, 60_000)
    assert lost.assigned["a"] == claims["a"]
    assert lost.delay_ms == 60_000
    later = assign(configured, {"a": claims["a"]}, lost.memory, 3, 31_000, 60_000)
    assert later.delay_ms == 30_000
    over = assign(configured, {"a": claims["a"]}, later.memory, 4, 61_000, 60_000)
    assert sorted(over.assigned["a"]) == sorted(configured)


def test_new_tasks_do_not_wait_for_a_delay() -> None:
    configured = everything(2, 1)
    both = assign(configured, {"a": [], "b": []}, Memory(), 1, 0, 60_000)
    new = TaskId("new", CONNECTOR)
    outcome = assign([*configured, new], {"a": both.assigned["a"]}, both.memory, 2, 0, 60_000)
    assert new in outcome.assigned["a"]


def test_a_task_that_two_workers_claim_is_taken_from_both() -> None:
    id = TaskId("c", 0)
    outcome = assign([id], {"a": [id], "b": [id]}, Memory(), 1, 0, 0)
    assert not outcome.assigned["a"] and not outcome.assigned["b"]
    assert outcome.revoked["a"] == outcome.revoked["b"] == [id]


def test_what_is_deleted_is_revoked() -> None:
    id = TaskId("c", 0)
    assert assign([], {"a": [id]}, Memory(), 1, 0, 0).revoked["a"] == [id]


def test_drawn_clusters_settle_balanced_and_complete_and_give_nothing_that_is_claimed() -> None:
    for seed in range(300):
        drawn = random.Random(seed)
        configured = everything(drawn.randint(0, 7), drawn.randint(0, 4))
        members = [f"w{number}" for number in range(drawn.randint(1, 6))]
        claims: dict[str, list[TaskId]] = {member: [] for member in members}
        for id in configured:
            if drawn.random() < 0.7:
                claims[drawn.choice(members)].append(id)
        outcome = assign(configured, claims, Memory(), 1, 0, 0)
        for member, ids in outcome.assigned.items():
            for id in ids:
                others = [each for each in members if each != member and id in claims[each]]
                assert not others, seed
        settled, _, _ = rounds(configured, claims, Memory(), 1)
        given = [id for ids in settled.values() for id in ids]
        assert sorted(given) == sorted(configured), seed
        for is_task in (False, True):
            counts = [sum((id.task != CONNECTOR) is is_task for id in ids) for ids in settled.values()]
            assert max(counts) - min(counts) <= 1, (seed, counts)
