"""Offsets of groups through a mirror with holes, markers and restarts: none is lost, few are read again."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.mirror.core.checkpoint_rules import Committed, GroupCheckpoints, offsets_to_sync
from ottla.mirror.core.offset_sync_store import OffsetSyncStore
from ottla.mirror.core.record_formats import Checkpoint, FormatError, Heartbeat, OffsetSync
from ottla.mirror.core.sync_plan import SyncPlan
from ottla.mirror.offset_sync_hook import CopiedRun

SOURCE = TopicPartition("t", 0)


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """pairs: offset on the source and on the target of each copied record; syncs in the order of writing."""

    pairs: list[tuple[int, int]]
    syncs: list[OffsetSync]


def _mirrored(dice: random.Random, lag_max: int) -> _Mirrored:
    plan = SyncPlan(lag_max)
    upstream, downstream = dice.randint(0, 50), dice.randint(0, 50)
    pairs: list[tuple[int, int]] = []
    syncs: list[OffsetSync] = []
    for _ in range(dice.randint(1, 12)):
        upstream += dice.choice((0, 0, 1, 7, 400))  # holes, aborted records, markers of the source
        downstream += dice.choice((0, 0, 1, 3))  # markers, records of others on the target
        if dice.random() < 0.1:
            plan = SyncPlan(lag_max)  # the task was killed, with what it had not said
        holes = dice.random() < 0.4
        ups = [upstream]
        for _ in range(dice.randint(0, 30 if holes else 300)):
            ups.append(ups[-1] + (dice.choice((1, 1, 1, 5)) if holes else 1))
        downs = range(downstream, downstream + len(ups))
        pairs += zip(ups, downs, strict=True)
        syncs += plan.copied([CopiedRun(SOURCE, ups[0], ups[-1], downs[0], downs[-1])])
        upstream, downstream = ups[-1] + 1, downs[-1] + 1
        if dice.random() < 0.5:
            syncs += plan.tails()
    syncs += plan.tails()
    return _Mirrored(pairs, syncs)


def _place_of(pairs: list[tuple[int, int]], group: int) -> int:
    """The exact place: the first record on the target that a group at this offset has not read."""
    return next((down for up, down in pairs if up >= group), pairs[-1][1] + 1)


SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.sampled_from((0, 1, 10, 100)))
def test_no_record_is_lost_and_at_most_the_lag_is_read_again(seed: int, lag_max: int) -> None:
    dice = random.Random(seed)
    mirrored = _mirrored(dice, lag_max)
    store = OffsetSyncStore()
    for sync in mirrored.syncs:
        store.replay(sync)
    first, end = mirrored.pairs[0][0], mirrored.pairs[-1][0] + 1
    for group in [first, end, *(dice.randint(0, end + 500) for _ in range(10))]:
        found = store.translate("t", 0, group)
        if group < first:
            assert found is None
            continue
        exact = _place_of(mirrored.pairs, group)
        assert found is not None
        assert 0 <= found <= exact
        again = sum(found <= down < exact for _, down in mirrored.pairs)
        assert again <= lag_max + 31  # within a run with holes its ends alone are known
    assert store.translate("t", 0, end) == mirrored.pairs[-1][1] + 1


@given(SEEDS)
def test_a_way_back_loses_no_record_either(seed: int) -> None:
    dice = random.Random(seed)
    mirrored = _mirrored(dice, 20)
    store = OffsetSyncStore()
    for sync in mirrored.syncs:
        store.replay(sync)
    end = mirrored.pairs[-1][1] + 1
    for group in (dice.randint(0, end + 5) for _ in range(10)):
        found = store.translate_back("t", 0, group)
        if found is None:
            assert group < mirrored.pairs[0][1]
            continue
        unread = [up for up, down in mirrored.pairs if down >= group]
        assert found <= min(unread, default=mirrored.pairs[-1][0] + 1)
        assert sum(up >= found and down < group for up, down in mirrored.pairs) <= 51


@given(st.integers(10, 60), SEEDS)
def test_a_thinned_history_is_coarser_and_never_ahead(history: int, seed: int) -> None:
    dice = random.Random(seed)
    store, offset, syncs = OffsetSyncStore(history), 0, []
    for _ in range(dice.randint(1, 400)):
        syncs.append(offset)
        store.replay(OffsetSync("t", 0, offset, offset))
        offset += dice.randint(1, 300)
    for group in (dice.randint(0, offset) for _ in range(20)):
        found = store.translate("t", 0, group)
        assert found is None or found <= group
    assert store.translate("t", 0, syncs[-1]) == syncs[-1]
    assert len(store._histories["t", 0].upstream) <= history + 1


def test_a_source_that_was_made_again_voids_what_was_said_before() -> None:
    store = OffsetSyncStore()
    for sync in (OffsetSync("t", 0, 100, 100), OffsetSync("t", 0, 900, 900), OffsetSync("t", 0, 0, 950)):
        store.replay(sync)
    assert store.translate("t", 0, 0) == 950
    assert store.translate("t", 0, 900) == 951


def test_a_target_that_was_made_again_voids_what_was_said_before() -> None:
    store = OffsetSyncStore()
    for sync in (OffsetSync("t", 0, 100, 5_000), OffsetSync("t", 0, 200, 0)):
        store.replay(sync)
    assert store.translate("t", 0, 150) is None
    assert store.translate("t", 0, 201) == 1


COMMITS = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 1)), st.builds(Committed, st.integers(0, 50), st.text())
)


@given(st.lists(st.tuples(COMMITS, st.integers(0, 20)), max_size=10))
def test_checkpoints_go_back_with_their_group_alone(
    looks: list[tuple[dict[tuple[str, int], Committed], int]],
) -> None:
    checkpoints = GroupCheckpoints()
    for commits, loss in looks:
        before = dict(checkpoints.last)

        def translate(topic: str, _: int, offset: int, loss: int = loss) -> tuple[str, int] | None:
            return (f"A.{topic}", offset - loss) if offset >= loss else None

        for each in checkpoints.due("g", commits, translate):
            last = before.get((each.topic, each.partition))
            if last is not None and each.upstream_offset >= last.upstream_offset:
                assert each.downstream_offset > last.downstream_offset
            assert each.downstream_offset <= each.upstream_offset
            checkpoints.take(each)


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Assigning", "CompletingRebalance"])
def test_a_group_with_members_is_left_alone(state: str) -> None:
    assert offsets_to_sync(state, {}, [Checkpoint("g", "t", 0, 5, 5)]) == {}


@pytest.mark.parametrize("state", [None, "Empty", "Dead"])
def test_an_idle_group_is_moved_on_and_never_back(state: str | None) -> None:
    wanted = [Checkpoint("g", "t", 0, 5, 5), Checkpoint("g", "t", 1, 9, 9), Checkpoint("g", "t", 2, 1, 0)]
    assert offsets_to_sync(state, {("t", 0): 6, ("t", 1): 8}, wanted) == {("t", 1): 9, ("t", 2): 0}


@given(st.sampled_from((OffsetSync, Checkpoint, Heartbeat)), st.binary(max_size=80), st.binary(max_size=80))
def test_foreign_bytes_are_refused_by_name(
    kind: type[OffsetSync | Checkpoint | Heartbeat], key: bytes, value: bytes
) -> None:
    try:
        found = kind.read(key, value)
    except FormatError:
        return
    assert (found.key(), found.value()) == (key, value)
