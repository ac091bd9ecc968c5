"""Mirrors from seeds: what a mirror has is always what its source had, and what is lost is always told."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.core.links.topic_state import LossKind
from support.core.mirrored_log import run

RUNS = 120
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_mirrors_under_faults_on_both_sides(group: int) -> None:
    failed = {}
    for seed in range(group, RUNS, GROUPS):
        problems = run(seed, may_recreate=seed % 10 == 9).problems
        if problems:
            failed[seed] = problems[:3]
    assert not failed


def test_the_faults_happen() -> None:
    kinds: Counter[LossKind] = Counter()
    for seed in range(60):
        kinds.update(each.kind for each in run(seed, may_recreate=seed % 10 == 9).told)
    assert kinds[LossKind.TRUNCATED] > 4
    assert kinds[LossKind.GAP] > 3
    assert kinds[LossKind.RECREATED] > 0


def test_a_mirror_that_would_not_tell_is_found() -> None:
    assert any(run(seed, truncate_untold=True).problems for seed in range(40))


def test_a_seed_is_one_run() -> None:
    first, second = run(5), run(5)
    assert first.told == second.told
    assert first.replicas[1].log.records == second.replicas[1].log.records
