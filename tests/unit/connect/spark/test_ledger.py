"""Ledgers: what they say, and that only their own connector's are taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.spark.ledger import Ledger, LedgerError, Owner, begun, read_ledger

OWNER = Owner("cluster", "my sink")
ENDS = st.dictionaries(
    st.text("abc.-_", min_size=1, max_size=8),
    st.dictionaries(st.integers(0, 50), st.integers(0, 2**63 - 1), min_size=1, max_size=5),
    max_size=4,
)


@given(ENDS, st.integers(0, 2**31), st.integers(0, 2**31))
def test_a_ledger_is_read_as_it_was_written(
    ends: dict[str, dict[int, int]], generation: int, sequence: int
) -> None:
    ledger = Ledger(generation, sequence, ends)
    assert read_ledger(ledger.text(OWNER), OWNER) == ledger


@given(ENDS, ENDS)
def test_a_ledger_after_a_batch_has_the_batch_and_what_was_there(
    before: dict[str, dict[int, int]], batch: dict[str, dict[int, int]]
) -> None:
    after = begun(3, before, None).after(batch)
    assert after.has(batch)
    assert (after.generation, after.sequence) == (3, 2)
    for topic, partitions in before.items():
        for partition, offset in partitions.items():
            assert after.ends[topic][partition] == batch.get(topic, {}).get(partition, offset)


def test_a_new_generation_goes_on_counting_commits() -> None:
    old = Ledger(1, 17, {"t": {0: 5}})
    assert begun(2, {"t": {0: 1}}, old) == Ledger(2, 18, {"t": {0: 1}})


def test_another_connectors_ledger_is_none() -> None:
    text = Ledger(0, 1, {}).text(OWNER)
    assert read_ledger(text, Owner("cluster", "other")) is None
    assert read_ledger(text, Owner("other", "my sink")) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"offsets": {"t": {"x": 1}}},
        {"offsets": {"t": {"0": -1}}},
        {"offsets": {"t": {"0": True}}},
        {"offsets": []},
        {"generation": "1"},
        {"sequence": None},
    ],
)
def test_a_ledger_that_is_damaged_is_an_error(change: dict[str, object]) -> None:
    text = json.dumps(json.loads(Ledger(0, 1, {}).text(OWNER)) | change)
    with pytest.raises(LedgerError):
        read_ledger(text, OWNER)


def test_no_two_connectors_have_one_slug() -> None:
    names = ["a", "a-", "a.b", "a-b", "ä", "x" * 60, "x" * 61, "", "日本"]
    slugs = {Owner(cluster, name).slug for cluster in ("c", "d") for name in names}
    assert len(slugs) == 2 * len(names)
    assert all(slug.replace("-", "").isalnum() and slug.isascii() for slug in slugs)
