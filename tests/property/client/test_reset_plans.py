"""A plan to reset offsets follows the rules of kafka-consumer-groups.sh, whatever the partitions are like."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.reset_plan import LogOffsets, Reset, ResetImpossible, ResetKind, plan_reset

OFFSETS = st.integers(0, 2**63 - 1)
WHOLE = TopicPartition("whole", 0)
PLACES = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 20))


@st.composite
def logs(draw: st.DrawFn) -> LogOffsets:
    start = draw(OFFSETS)
    end = draw(st.integers(start, 2**63 - 1))
    return LogOffsets(start, end, draw(st.none() | st.integers(start, end)))


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]]:
    """Partitions, and offsets that some of them have: within the log, or not any more."""
    known = draw(st.dictionaries(PLACES, logs(), min_size=1, max_size=8))
    committed = draw(st.dictionaries(st.sampled_from(sorted(known)), OFFSETS))
    return known, committed


@given(situations(), st.sampled_from([ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.CURRENT]))
def test_ends_and_current_offsets(
    situation: tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]], kind: ResetKind
) -> None:
    known, committed = situation
    plan = plan_reset(Reset(kind), known, committed, known)
    assert [one.place for one in plan] == sorted(known)
    for one in plan:
        log = known[one.place]
        expected = {
            ResetKind.EARLIEST: log.start,
            ResetKind.LATEST: log.end,
            ResetKind.CURRENT: committed.get(one.place, log.end),
        }
        assert (one.before, one.offset) == (committed.get(one.place), expected[kind])


@example(({WHOLE: LogOffsets(0, 2**63 - 1, None)}, {WHOLE: 0}), 2**63, ResetKind.SHIFT)
@given(situations(), st.integers(-(2**63), 2**63), st.sampled_from([ResetKind.OFFSET, ResetKind.SHIFT]))
def test_offsets_stay_within_the_log_and_say_when_they_were_moved(
    situation: tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]], value: int, kind: ResetKind
) -> None:
    known, committed = situation
    reset = Reset(kind, value)
    if kind is ResetKind.SHIFT and committed.keys() != known.keys():
        with pytest.raises(ResetImpossible, match="no committed offset"):
            plan_reset(reset, known, committed, known)
        known = {place: known[place] for place in committed}
    for one in plan_reset(reset, known, committed, known):
        log = known[one.place]
        wanted = value if kind is ResetKind.OFFSET else committed[one.place] + value
        assert one.offset == min(max(wanted, log.start), log.end)
        assert bool(one.note) == (not log.start <= wanted <= log.end)


@given(situations())
def test_a_time_without_a_record_means_the_end(
    situation: tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]],
) -> None:
    known, committed = situation
    for one in plan_reset(Reset(ResetKind.TIME, 5), known, committed, known):
        log = known[one.place]
        assert one.offset == (log.end if log.at_time is None else log.at_time)


@given(situations(), st.data())
def test_a_file_says_where_each_of_its_partitions_goes(
    situation: tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]], data: st.DataObject
) -> None:
    known, committed = situation
    offsets = {place: data.draw(st.integers(log.start, log.end)) for place, log in known.items()}
    plan = plan_reset(Reset(ResetKind.FILE, offsets=offsets), offsets, committed, known)
    assert {one.place: one.offset for one in plan} == offsets
    missing = min(offsets)
    with pytest.raises(ResetImpossible, match="not in the file"):
        plan_reset(
            Reset(ResetKind.FILE, offsets={p: o for p, o in offsets.items() if p != missing}),
            known,
            committed,
            known,
        )


@given(situations())
def test_a_plan_that_was_carried_out_plans_the_same_again(
    situation: tuple[dict[TopicPartition, LogOffsets], dict[TopicPartition, int]],
) -> None:
    known, committed = situation
    for kind in (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.CURRENT, ResetKind.TIME):
        plan = plan_reset(Reset(kind, 7), known, committed, known)
        after = {one.place: one.offset for one in plan}
        again = plan_reset(Reset(kind, 7), known, after, known)
        assert {one.place: one.offset for one in again} == after
