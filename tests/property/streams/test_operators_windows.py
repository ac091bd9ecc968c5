"""Windows, sessions and sliding windows against models over the whole history, batches cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.operators.aggregation import Aggregate, Count, Reduce
from ottla.streams.operators.operator import Event, Output
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import (
    CumulatingWindows,
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
)
from support.pipeline.keyed_operators import OperatorRun, applied

Batches = list[list[tuple[str, int, str]]]
FAR_MS = 10**9

records = st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.sampled_from("xyz"))
batches = st.lists(st.lists(records, max_size=6), max_size=8)
concatenation = Reduce(lambda before, value: before + value)
appended = Aggregate(list, lambda values, value: (values.append(value), values)[1], lambda a, b: a + b)


def with_watermarks(cut: Batches) -> Iterator[tuple[int, list[tuple[str, int, str]]]]:
    """Each batch with the largest time of those before, and a last one that closes everything."""
    watermark_ms = -1
    for batch in cut:
        yield watermark_ms, batch
        watermark_ms = max([watermark_ms, *(at_ms for _, at_ms, _ in batch)])
    yield FAR_MS, []


def run(operator: Any, cut: Batches) -> tuple[list[list[Output]], OperatorRun]:
    host = OperatorRun(operator)
    return [
        host.batch([Event(0, key, value, at_ms) for key, at_ms, value in batch], watermark_ms)
        for watermark_ms, batch in with_watermarks(cut)
    ], host


def by_key(outputs: list[Output]) -> dict[str, list[tuple[int, int, Any, int]]]:
    """(start, end, value, timestamp) of each key in their order."""
    found: dict[str, list[tuple[int, int, Any, int]]] = {}
    for each in outputs:
        row = (each.key["start"], each.key["end"], each.value, each.timestamp_ms)
        found.setdefault(each.key["key"], []).append(row)
    return found


class Bag:
    """A model's state of one key: accepted records in their order."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str]] = []

    def inside(self, start_ms: int, end_ms: int) -> tuple[str, int]:
        """The values of the records in there, both ends included, and the latest time."""
        found = [(at_ms, value) for at_ms, value in self.records if start_ms <= at_ms <= end_ms]
        return "".join(value for _, value in found), max(at_ms for at_ms, _ in found)


@given(batches, st.integers(1, 20), st.data(), st.integers(0, 20))
def test_hopping_windows_hold_all_their_records_until_they_close(
    cut: Batches, size_ms: int, data: st.DataObject, grace_ms: int
) -> None:
    advance_ms = data.draw(st.integers(1, size_ms))
    windows = HoppingWindows(size_ms, advance_ms, grace_ms)
    if advance_ms == size_ms and data.draw(st.booleans()):
        given_windows: Any = TumblingWindows(size_ms, grace_ms)
    else:
        given_windows = windows
    outputs, host = run(WindowedAggregate(given_windows, concatenation), cut)

    contents: dict[tuple[str, int], list[tuple[int, str]]] = {}
    late = 0
    for (watermark_ms, batch), got in zip(with_watermarks(cut), outputs, strict=True):
        expected: dict[str, list[tuple[int, int, Any, int]]] = {}
        for key, at_ms, value in batch:
            for start_ms in range(0, at_ms + 1, advance_ms):
                end_ms = start_ms + size_ms
                if not start_ms <= at_ms < end_ms:
                    continue
                if end_ms + grace_ms <= watermark_ms:
                    late += 1
                    continue
                content = contents.setdefault((key, start_ms), [])
                content.append((at_ms, value))
                text = "".join(each for _, each in content)
                expected.setdefault(key, []).append((start_ms, end_ms, text, max(content)[0]))
        assert by_key(got) == expected
    assert host.late == late
    assert host.remembered == {}


@given(batches, st.integers(1, 5), st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_cumulating_windows_share_a_start_and_grow_by_a_step(
    cut: Batches, step_ms: int, steps: int, grace_ms: int, once: bool
) -> None:
    size_ms = step_ms * steps
    windows = CumulatingWindows(size_ms, step_ms, grace_ms)
    outputs, host = run(WindowedAggregate(windows, concatenation, emit_on_close=once), cut)

    contents: dict[tuple[str, int, int], list[tuple[int, str]]] = {}
    for (watermark_ms, batch), got in zip(with_watermarks(cut), outputs, strict=True):
        expected: dict[str, list[tuple[int, int, Any, int]]] = {}
        for window in sorted(contents, key=lambda each: each[2]):
            key, start_ms, end_ms = window
            if end_ms + grace_ms <= watermark_ms:
                content = contents.pop(window)
                text = "".join(each for _, each in content)
                if once:
                    expected.setdefault(key, []).append((start_ms, end_ms, text, max(content)[0]))
        for key, at_ms, value in batch:
            for start_ms in range(0, at_ms + 1, size_ms):
                for end_ms in range(start_ms + step_ms, start_ms + size_ms + 1, step_ms):
                    if not start_ms <= at_ms < end_ms or end_ms + grace_ms <= watermark_ms:
                        continue
                    content = contents.setdefault((key, start_ms, end_ms), [])
                    content.append((at_ms, value))
                    text = "".join(each for _, each in content)
                    if not once:
                        expected.setdefault(key, []).append((start_ms, end_ms, text, max(content)[0]))
        assert by_key(got) == expected
    assert host.remembered == {}


@given(batches, st.integers(1, 20), st.integers(0, 20))
def test_a_closed_window_is_emitted_once_with_the_batch_that_closes_it(
    cut: Batches, size_ms: int, grace_ms: int
) -> None:
    windows = TumblingWindows(size_ms, grace_ms)
    every, _ = run(WindowedAggregate(windows, concatenation), cut)
    final, host = run(WindowedAggregate(windows, concatenation, emit_on_close=True), cut)

    seen: dict[tuple[str, int], tuple[Any, int]] = {}
    emitted: set[tuple[str, int]] = set()
    for (watermark_ms, _), changes, closed in zip(with_watermarks(cut), every, final, strict=True):
        expected = {
            window: last
            for window, last in seen.items()
            if window not in emitted and window[1] + size_ms + grace_ms <= watermark_ms
        }
        got = {(each.key["key"], each.key["start"]): (each.value, each.timestamp_ms) for each in closed}
        assert got == expected
        assert len(closed) == len(got)
        emitted |= got.keys()
        seen |= {(each.key["key"], each.key["start"]): (each.value, each.timestamp_ms) for each in changes}
    assert emitted == seen.keys()
    assert host.remembered == {}


@given(batches, st.integers(1, 15), st.integers(0, 20))
def test_sessions_join_near_ones_that_are_still_open(cut: Batches, gap_ms: int, grace_ms: int) -> None:
    outputs, host = run(SessionAggregate(SessionWindows(gap_ms, grace_ms), Count()), cut)

    table: dict[tuple[str, int, int], int] = {}
    sessions: dict[str, list[list[int]]] = {"a": [], "b": []}
    late = 0
    for (watermark_ms, batch), got in zip(with_watermarks(cut), outputs, strict=True):
        for key, at_ms, _ in batch:
            live = [each for each in sessions[key] if max(each) + gap_ms + grace_ms >= watermark_ms]
            near = [each for each in live if min(each) - gap_ms <= at_ms <= max(each) + gap_ms]
            joined = sorted([at_ms, *(time for each in near for time in each)])
            if joined[-1] + gap_ms + grace_ms < watermark_ms:
                late += 1
                continue
            sessions[key] = [each for each in live if each not in near] + [joined]
        for each in got:
            window = (each.key["key"], each.key["start"], each.key["end"])
            assert each.timestamp_ms == window[2]
            if each.value is None:
                del table[window]  # a tombstone for a row that was never there fails
            else:
                table[window] = each.value
        for key in "ab":
            for each in sessions[key]:
                assert table[key, min(each), max(each)] == len(each)
    assert host.late == late
    assert host.remembered == {}


@given(batches, st.integers(1, 15))
def test_sessions_without_late_records_are_those_of_the_whole_history(cut: Batches, gap_ms: int) -> None:
    outputs, _ = run(SessionAggregate(SessionWindows(gap_ms, FAR_MS // 2), appended), cut)

    expected: dict[str, list[list[int]]] = {}
    for key, at_ms in sorted((key, at_ms) for batch in cut for key, at_ms, _ in batch):
        sessions = expected.setdefault(key, [])
        if sessions and at_ms - sessions[-1][-1] <= gap_ms:
            sessions[-1].append(at_ms)
        else:
            sessions.append([at_ms])
    table = applied(each for batch in outputs for each in batch)
    assert {text: len(value) for text, value in table.items()} == {
        f'{{"key":"{key}","start":{session[0]},"end":{session[-1]}}}': len(session)
        for key, sessions in expected.items()
        for session in sessions
    }


@given(batches, st.integers(1, 15), st.integers(0, 20))
def test_a_closed_session_is_emitted_once(cut: Batches, gap_ms: int, grace_ms: int) -> None:
    windows = SessionWindows(gap_ms, grace_ms)
    every, _ = run(SessionAggregate(windows, Count()), cut)
    final, host = run(SessionAggregate(windows, Count(), emit_on_close=True), cut)
    emitted = [each for batch in final for each in batch]
    assert applied(emitted) == applied(each for batch in every for each in batch)
    assert len(emitted) == len(applied(emitted))
    assert host.remembered == {}


def sliding_windows(bag: Bag, difference_ms: int) -> dict[int, tuple[str, int]]:
    """KIP-450 to the letter: which windows there are for these records, and their content."""
    starts = set()
    for at_ms, _ in bag.records:
        starts.add(max(0, at_ms - difference_ms))
        if any(at_ms + 1 <= other_ms <= at_ms + 1 + difference_ms for other_ms, _ in bag.records):
            starts.add(at_ms + 1)
    return {start_ms: bag.inside(start_ms, start_ms + difference_ms) for start_ms in starts}


@given(batches, st.integers(0, 15), st.integers(0, 20), st.booleans())
def test_sliding_windows_are_those_of_the_records(
    cut: Batches, difference_ms: int, grace_ms: int, mutable: bool
) -> None:
    aggregation = appended if mutable else concatenation
    outputs, host = run(SlidingAggregate(SlidingWindows(difference_ms, grace_ms), aggregation), cut)

    bags = {"a": Bag(), "b": Bag()}
    late = 0
    for (watermark_ms, batch), got in zip(with_watermarks(cut), outputs, strict=True):
        expected: dict[str, list[tuple[int, int, Any, int]]] = {}
        for key, at_ms, value in batch:
            if at_ms + difference_ms + grace_ms < watermark_ms:
                late += 1
                continue
            before = sliding_windows(bags[key], difference_ms)
            bags[key].records.append((at_ms, value))
            after = sliding_windows(bags[key], difference_ms)
            for start_ms in sorted(after):
                end_ms = start_ms + difference_ms
                if after[start_ms] != before.get(start_ms) and end_ms + grace_ms >= watermark_ms:
                    expected.setdefault(key, []).append((start_ms, end_ms, *after[start_ms]))
        if not mutable:
            assert by_key(got) == expected
        else:  # an adder that changes its aggregate in place gives the same object again and again
            assert {key: [row[:2] for row in rows] for key, rows in by_key(got).items()} == {
                key: [row[:2] for row in rows] for key, rows in expected.items()
            }
    assert host.late == late
    assert host.remembered == {}


@given(batches, st.integers(0, 15), st.integers(0, 20))
def test_a_closed_sliding_window_is_emitted_once(cut: Batches, difference_ms: int, grace_ms: int) -> None:
    windows = SlidingWindows(difference_ms, grace_ms)
    every, _ = run(SlidingAggregate(windows, appended), cut)
    final, host = run(SlidingAggregate(windows, appended, emit_on_close=True), cut)
    emitted = [each for batch in final for each in batch]
    assert applied(emitted) == applied(each for batch in every for each in batch)
    assert len(emitted) == len(applied(emitted))
    assert host.remembered == {}
