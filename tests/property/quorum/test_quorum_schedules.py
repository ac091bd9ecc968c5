"""Any schedule of crashes, losses, partitions and voter changes keeps the quorum's rules, and it recovers.

Each example is a seed; a failure names it. The mutations prove that the checker can fail.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.core.quorum.api import QuorumFault
from support.core.quorum_mutations import ABOUT_LEADERS, MUTATIONS
from support.core.quorum_network import SETTINGS, Chaos, Network, Violation
from support.exploration import examples

STEPS = 120


JOINING = replace(SETTINGS, auto_join=True)


def explore(seed: int, chaos: Chaos) -> None:
    try:
        chaos.run(STEPS)
        chaos.end_well()
    except (Violation, QuorumFault) as failure:
        raise AssertionError(f"seed {seed}: {failure}") from failure


def test_the_rules_hold_on_any_schedule() -> None:
    for seed in range(examples(10)):
        network = Network(seed, 1 + seed % 5, seed % 3, wire=seed % 10 == 0)
        explore(seed, Chaos(network))


def test_the_rules_hold_for_static_voters_and_when_they_become_dynamic() -> None:
    for seed in range(examples(5)):
        network = Network(seed, 1 + seed % 5, seed % 2, static=True)
        explore(seed, Chaos(network, changes_voters=False).with_upgrade())


def test_the_rules_hold_when_a_voter_loses_its_disk() -> None:
    for seed in range(examples(5)):
        network = Network(seed, 3 + seed % 3, settings=JOINING)
        explore(seed, Chaos(network).with_lost_disk())


def test_the_rules_hold_when_leaders_fall_one_after_another() -> None:
    for seed in range(examples(5)):
        network = Network(seed, 3 + 2 * (seed % 2), static=True)
        explore(seed, Chaos(network).about_leaders())


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
