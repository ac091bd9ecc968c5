"""The simulation notices broken cores: each mutation is caught within a bounded number of seeds."""

from __future__ import annotations

import pytest

from simulation import mutations
from simulation.cluster import Shape, run_seed
from simulation.mutations import Mutation
from simulation.shapes import ELECTIONS, HISTORIES, LEADERS, REPLICAS, TAILS, VOTES

CAUGHT = (
    (mutations.vote_counted_twice, ELECTIONS),
    (mutations.vote_given_twice, ELECTIONS),
    (mutations.vote_not_durable, VOTES),
    (mutations.vote_for_a_shorter_log, HISTORIES),
    (mutations.old_epochs_answered, ELECTIONS),
    (mutations.committed_by_a_minority, ELECTIONS),
    (mutations.synced_before_it_is, ELECTIONS),
    (mutations.leader_epoch_not_checked, LEADERS),
    (mutations.divergent_tail_kept, REPLICAS),
    (mutations.acknowledged_before_committed, REPLICAS),
    pytest.param(mutations.shrunk_before_the_controller_says_so, REPLICAS, marks=pytest.mark.long),
    pytest.param(mutations.high_watermark_of_the_leader_alone, REPLICAS, marks=pytest.mark.long),
    (mutations.min_isr_ignored, TAILS),
    (mutations.duplicates_not_recognised, REPLICAS),
    pytest.param(mutations.restarted_broker_joins, TAILS, marks=pytest.mark.long),
    pytest.param(mutations.any_live_replica_elected, REPLICAS, marks=pytest.mark.long),
)
SEEDS = 150


def seed_that_catches(mutation: Mutation, shape: Shape) -> int | None:
    """The first seed that fails under the mutation."""
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        return next((seed for seed in range(SEEDS) if run_seed(seed, shape).problems), None)


@pytest.mark.parametrize(("mutation", "shape"), CAUGHT, ids=lambda each: getattr(each, "__name__", ""))
def test_a_broken_core_is_noticed(mutation: Mutation, shape: Shape) -> None:
    caught = seed_that_catches(mutation, shape)
    assert caught is not None
    assert run_seed(caught, shape).problems == [], "what is whole passes where the broken one fails"
