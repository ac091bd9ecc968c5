"""The experiment: whatever is dropped, doubled, held back or mirrored again is named, and nothing else."""

from __future__ import annotations

import pytest

from ottla.audit.core.rows import MOST_RANGES
from support.audit.world import World, named_ids
from support.exploration import examples

SEEDS = examples(60, deep=1_000)


@pytest.mark.parametrize("part", range(4))
def test_the_audit_names_each_fault_exactly(part: int) -> None:
    for seed in range(part, SEEDS, 4):
        world = World(seed)
        world.run()
        expected = world.expected()
        rows = {(row.tier, row.topic, row.bucket_start_ms): row for row in world.book.rows()}
        assert rows.keys() == {tuple(key) for key in expected}, f"seed {seed}"
        for key, wanted in expected.items():
            row = rows[tuple(key)]
            told = (row.sent, row.lost, row.doubled, row.remirrored, row.late, row.unreported)
            doubled = wanted.doubled.total()
            assert told == (
                wanted.sent,
                len(wanted.lost),
                doubled,
                wanted.remirrored,
                wanted.late,
                wanted.unreported,
            ), f"seed {seed}, {key}"
            assert row.pending == row.unknown == 0
            assert row.expected == row.counted - row.doubled + row.lost
            if len(row.lost_ranges) < MOST_RANGES:
                assert named_ids(row.lost_ranges, row) == wanted.lost, f"seed {seed}"
            if len(row.doubled_ranges) < MOST_RANGES:
                assert named_ids(row.doubled_ranges, row) == set(wanted.doubled), f"seed {seed}"
