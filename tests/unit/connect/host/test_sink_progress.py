"""What a sink commits: never more than is durable, never less than before; against a simple model."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.host.sink_progress import SinkProgress

PLACE = TopicPartition("t", 0)


@dataclass(frozen=True)
class Message:
    at: int

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at


def _record(offset: int) -> SinkRecord:
    return SinkRecord(Record("t"), PLACE, offset)


@given(st.lists(st.tuples(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(0, 8), st.booleans())))
def test_what_is_committed_is_durable_or_was_skipped(
    batches: list[tuple[list[bool], int, bool]],
) -> None:
    """A batch: which records are kept, how many of them a first write takes, whether flush says all."""
    progress = SinkProgress()
    progress.gained([PLACE])
    at, committed = 0, 0
    given_to_sink: list[int] = []
    durable_to = 0
    skipped: set[int] = set()

    def commit(says_all: bool) -> None:
        nonlocal committed, durable_to
        if says_all:
            durable_to = given_to_sink[-1] + 1 if given_to_sink else durable_to
            answer = None
        else:
            answer = {PLACE: durable_to} if durable_to else {}
        found = progress.committable([PLACE], answer)
        if PLACE in found:
            assert found[PLACE] > committed
            committed = found[PLACE]
            progress.committed(found)
        for offset in range(committed):
            assert offset in skipped or offset < durable_to, (offset, durable_to)

    for kept, first, says_all in batches:
        offsets = range(at, at + len(kept))
        at += len(kept)
        records = [offset for offset, keep in zip(offsets, kept, strict=True) if keep]
        skipped |= set(offsets) - set(records)
        progress.consumed([Message(offset) for offset in offsets])
        progress.written([_record(offset) for offset in records[:first]])
        given_to_sink += records[:first]
        commit(says_all)
        progress.written([_record(offset) for offset in records[first:]])
        given_to_sink += records[first:]
        progress.batch_done()
        commit(says_all)
    commit(True)
    assert committed == at


def test_a_partition_that_is_lost_is_forgotten() -> None:
    progress = SinkProgress()
    progress.gained([PLACE])
    progress.consumed([Message(4)])
    progress.written([_record(4)])
    progress.lost([PLACE])
    progress.batch_done()
    assert PLACE not in progress.positions


def test_more_than_was_given_is_never_durable() -> None:
    progress = SinkProgress()
    progress.gained([PLACE])
    progress.consumed([Message(4)])
    progress.written([_record(4)])
    progress.batch_done()
    assert progress.committable([PLACE], {PLACE: 100}) == {PLACE: 5}
