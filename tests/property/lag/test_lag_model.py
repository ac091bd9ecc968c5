"""The lag of one group in one partition, whatever its log goes through, against a model that knows all."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.client.cluster_requests import TopicPartition
from ottla.client.first_records import FirstRecord, Found, NoRecord
from ottla.lag.core.standing import Position
from ottla.lag.core.tracker import REVIEW_MS, GroupVerdict, PartitionVerdict, Rules, Tracker
from ottla.lag.core.verdicts import Status

PARTITION = TopicPartition("orders", 0)


@dataclass
class Log:
    """A log: the offsets of its records with the times of their writing; the others are markers or holes."""

    start: int = 0
    end: int = 0
    written_ms: dict[int, int] = field(default_factory=dict)
    stamped_ms: dict[int, int | None] = field(default_factory=dict)

    def first(self, offset: int) -> Found:
        """What a reader from there on is given."""
        found = min((one for one in self.written_ms if one >= max(offset, self.start)), default=None)
        return NoRecord() if found is None else FirstRecord(found, self.stamped_ms[found])


class LagModel(RuleBasedStateMachine):
    """Records, markers, compaction, retention, commits, and the rounds of a sampler, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.now_ms = 1_000_000
        self.offset: int | None = None
        self.tracker = Tracker(Rules(intervals=4))
        self.seen_end = 0
        self.seen_start = 0
        self.read_offset: int | None = None
        self.looked = False
        self.verdict: GroupVerdict | None = None

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule(
        count=st.integers(1, 5),
        skew_ms=st.sampled_from([0, 0, 0, -(10**9), 10**9, None]),
        by_ms=st.integers(0, 5_000),
    )
    def records_are_written(self, count: int, skew_ms: int | None, by_ms: int) -> None:
        self.pass_time(by_ms)
        for _ in range(count):
            self.log.written_ms[self.log.end] = self.now_ms
            self.log.stamped_ms[self.log.end] = None if skew_ms is None else self.now_ms + skew_ms
            self.log.end += 1

    @rule(count=st.integers(1, 3))
    def markers_are_written(self, count: int) -> None:
        self.log.end += count

    @rule(data=st.data())
    @precondition(lambda self: self.log.written_ms)
    def compaction_leaves_a_hole(self, data: st.DataObject) -> None:
        self.pass_time(REVIEW_MS)  # it takes its time, in which records are looked at once more
        gone = data.draw(st.sampled_from(sorted(self.log.written_ms)))
        del self.log.written_ms[gone]

    @rule(part=st.floats(0, 1))
    def retention_removes_the_oldest(self, part: float) -> None:
        self.log.start += round(part * (self.log.end - self.log.start))
        for gone in [one for one in self.log.written_ms if one < self.log.start]:
            del self.log.written_ms[gone]

    @rule(part=st.none() | st.floats(0, 1), by_ms=st.integers(0, 3_000), told=st.booleans())
    def the_group_commits(self, part: float | None, by_ms: int, told: bool) -> None:
        """part: of the log; None for all records. told: by the topic of commits, at once."""
        self.pass_time(by_ms)
        last = max(self.log.written_ms, default=self.log.start - 1)
        self.offset = last + 1 if part is None else round(part * self.log.end)
        if told:
            self.tracker.saw_commit(
                "g", PARTITION, self.offset, order=self.now_ms, timestamp_ms=self.now_ms, now_ms=self.now_ms
            )

    @rule(by_ms=st.integers(1, 20_000), looks=st.booleans())
    def a_round_reads_the_cluster(self, by_ms: int, looks: bool) -> None:
        """looks: at the record that is next."""
        self.pass_time(by_ms)
        self.seen_end = self.log.end
        self.tracker.saw_end(PARTITION, self.log.end, self.now_ms)
        self.read_offset, self.looked = self.offset, looks
        if self.offset is not None:
            self.tracker.saw_position("g", PARTITION, self.offset, self.now_ms, is_commit=True)
        self.seen_start = self.log.start
        self.tracker.saw_start(PARTITION, self.log.start)
        wanted = self.tracker.wanted(self.tracker.places().items(), self.now_ms) if looks else ()
        for one in wanted:
            self.tracker.saw_first(one.place, self.log.first(one.place[1]), one.end, self.now_ms)
        self.verdict = self.tracker.verdict("g", self.now_ms)
        if self.offset is not None:
            self.check_round(looks)

    def partition(self) -> PartitionVerdict:
        assert self.verdict is not None
        (one,) = self.verdict.partitions
        return one

    def check_round(self, looks: bool) -> None:
        """All that a fresh reading has to say."""
        one = self.partition()
        assert self.offset is not None and one.offset == self.offset
        first = self.log.first(self.offset)
        caught_up = not isinstance(first, FirstRecord)
        assert one.standing.removed == max(0, self.log.start - self.offset) or self.offset >= self.log.end
        if caught_up and looks:
            assert one.standing.lag == 0 and one.lag_ms == 0
            assert one.status is Status.OK
        if not caught_up:
            assert one.standing.lag == self.log.end - max(self.offset, self.log.start) > 0
            assert isinstance(first, FirstRecord)
            waited_ms = self.now_ms - self.log.written_ms[first.offset]
            # the record's own time may be anything; the ends that were seen bound what is told of it
            bracket = self.tracker._logs[PARTITION].times.written(first.offset)
            if looks and first.timestamp_ms == self.log.written_ms[first.offset]:
                assert one.lag_ms == waited_ms
            if looks and one.lag_ms is not None and bracket is not None and bracket.after_ms is not None:
                assert self.now_ms - bracket.before_ms <= one.lag_ms <= self.now_ms - bracket.after_ms
                assert self.now_ms - bracket.before_ms <= waited_ms <= self.now_ms - bracket.after_ms

    @invariant()
    def nothing_is_ever_negative(self) -> None:
        verdict = self.tracker.verdict("g", self.now_ms)
        for one in () if verdict is None else verdict.partitions:
            assert one.standing.lag is None or one.standing.lag >= 0
            assert one.lag_ms is None or one.lag_ms >= 0
            assert one.standing.removed >= 0
            assert one.standing.position is not Position.BEYOND_END
            if one.standing.lag == 0:
                assert one.status is Status.OK and one.lag_ms == 0

    @invariant()
    def a_lag_grows_by_the_time_that_passes(self) -> None:
        earlier = self.tracker.verdict("g", self.now_ms)
        later = self.tracker.verdict("g", self.now_ms + 700)
        if earlier is None or later is None:
            return
        for before, after in zip(earlier.partitions, later.partitions, strict=True):
            assert before.standing == after.standing
            if before.lag_ms is None or before.standing.lag == 0:
                assert before.lag_ms == after.lag_ms
            else:
                assert after.lag_ms is not None and 0 <= after.lag_ms - before.lag_ms <= 700


LagModel.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestLagModel = LagModel.TestCase
