"""Any schedule of crashes, losses, partitions and voter changes: the quorum's rules hold, and it heals.

Each example is a seed; a failure names it. The mutations prove that the checker can fail.
"""

from __future__ import annotations

import pytest

from ottla.core.quorum.api import QuorumFault
from support.exploration import examples
from support.quorum_mutations import ABOUT_LEADERS, MUTATIONS
from support.quorum_network import Chaos, Network, Violation

STEPS = 120


def explore(seed: int, voters: int, observers: int, *, static: bool, about_leaders: bool = False) -> None:
    network = Network(seed, voters, observers, static=static, wire=seed % 10 == 0)
    chaos = Chaos(network, changes_voters=not static)
    if about_leaders:
        chaos = chaos.about_leaders()
    try:
        chaos.run(STEPS)
        chaos.end_well()
    except (Violation, QuorumFault) as failure:
        raise AssertionError(
            f"seed {seed}, {voters} voters, {observers} observers, static {static}, "
            f"about leaders {about_leaders}: {failure}"
        ) from failure


def test_the_rules_hold_on_any_schedule() -> None:
    for seed in range(examples(25)):
        explore(seed, 1 + seed % 5, seed % 3, static=seed % 4 == 0)


def test_the_rules_hold_when_leaders_fall_one_after_another() -> None:
    for seed in range(examples(10)):
        explore(seed, 3 + 2 * (seed % 2), 0, static=True, about_leaders=True)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_mutation_is_caught(mutation: str) -> None:
    with MUTATIONS[mutation]():
        for seed in range(400):
            network = Network(seed, (3, 5, 4, 2)[seed % 4], static=seed % 3 == 0)
            chaos = Chaos(network, changes_voters=seed % 3 != 0)
            if mutation in ABOUT_LEADERS:
                network = Network(seed, 3, static=True)
                chaos = Chaos(network).about_leaders()
            try:
                chaos.run(STEPS)
                chaos.end_well()
            except (Violation, QuorumFault):
                return
    pytest.fail(f"nothing notices that {mutation}")
