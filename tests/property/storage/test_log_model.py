"""A log against a plain list of records, through any sequence of operations, restarts and torn tails.

The model holds the log's expected content: every record that was appended, by offset, from the log's start to
its end. A crash may take batches above the recovery point only, and always from the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import parse_batch_header
from ottla.storage.log import Log, LogConfig
from support.storage.logs import NOW_MS, append, read_all

CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=150,
    retention_ms=500,
    retention_bytes=6000,
    file_delete_delay_ms=0,
)


@dataclass(frozen=True)
class Expected:
    """A record of the model; `batch` is the base offset of its batch."""

    offset: int
    timestamp: int
    value: bytes
    batch: int
    epoch: int


class LogAgainstList(RuleBasedStateMachine):
    """Operations on a log, each mirrored on a list."""

    @initialize()
    def open_an_empty_log(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.now = NOW_MS
        self.records: list[Expected] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.sequence = 0
        self.checkpointed_recovery_point = 0
        self.log = self.open()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.log.close_files()
            shutil.rmtree(self.root)

    def open(self, *, clean: bool = False) -> Log:
        return Log.open(
            self.root / "t-0",
            CONFIG,
            now_ms=self.now,
            recovery_point=self.checkpointed_recovery_point,
            log_start_offset=self.start,
            clean_shutdown=clean,
        )

    # --- operations -----------------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=5),
        age=st.integers(-20, 20),
        codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
        idempotent=st.booleans(),
    )
    def append(self, sizes: list[int], age: int, codec: Codec, idempotent: bool) -> None:
        self.now += 5
        times = [self.now + age + index % 3 for index in range(len(sizes))]
        values = [b"%d/" % (self.end + index) + b"v" * size for index, size in enumerate(sizes)]
        producer = (
            {"producer_id": 7, "producer_epoch": 0, "base_sequence": self.sequence} if idempotent else {}
        )
        result = append(
            self.log,
            *values,
            timestamps=times,
            leader_epoch=self.epoch,
            codec=codec,
            now_ms=self.now,
            **producer,
        )
        assert result.base_offset == self.end
        for index, (time, value) in enumerate(zip(times, values, strict=True)):
            self.records.append(Expected(self.end + index, time, value, self.end, self.epoch))
        self.end += len(sizes)
        self.sequence += len(sizes) if idempotent else 0

    @rule()
    def elect_a_new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        target = max(self.start, self.end - back)
        self.checkpointed_recovery_point = min(self.checkpointed_recovery_point, target)
        self.log.truncate_to(target, now_ms=self.now)
        self.cut(target)
        assert self.log.log_end_offset == self.end

    @rule(ahead=st.integers(0, 12))
    def delete_records(self, ahead: int) -> None:
        self.start = max(self.start, min(self.end, self.start + ahead))
        self.log.advance_log_start_offset(self.start)

    @rule(later=st.integers(0, 300), unreplicated=st.integers(0, 5))
    def enforce_retention(self, later: int, unreplicated: int) -> None:
        self.now += later
        high_watermark = max(self.start, self.end - unreplicated)
        self.log.enforce_retention(self.now, high_watermark)
        self.log.remove_deleted_files(self.now)
        assert self.start <= self.log.log_start_offset <= high_watermark
        self.start = self.log.log_start_offset

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.checkpointed_recovery_point = self.log.recovery_point
        assert self.log.recovery_point == self.end

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.open(clean=True)

    @rule()
    def be_killed(self) -> None:
        self.log.close_files()
        self.log = self.open()

    @precondition(lambda self: self.end > self.checkpointed_recovery_point)
    @rule(torn=st.integers(1, 400))
    def be_killed_with_a_torn_tail(self, torn: int) -> None:
        """The end of the active segment is lost, but no flushed batch."""
        base = self.log.segment_base_offsets[-1]
        path = self.root / "t-0" / f"{base:020d}.log"
        self.log.close_files()
        keep = max(path.stat().st_size - torn, self.flushed_bytes(path))
        os.truncate(path, keep)
        self.log = self.open()
        assert self.log.log_end_offset >= max(base, min(self.end, self.checkpointed_recovery_point))
        start = self.start
        self.cut(self.log.log_end_offset)
        self.start = start  # the log start is checkpointed: a log that ends below it begins anew there
        self.end = max(self.end, start)
        assert self.end == self.log.log_end_offset, "the log ends with a whole batch"

    def flushed_bytes(self, path: Path) -> int:
        data, position = path.read_bytes(), 0
        while position < len(data):
            header = parse_batch_header(data, position)
            if header.base_offset >= self.checkpointed_recovery_point:
                break
            position += header.size_bytes
        return position

    def cut(self, target: int) -> None:
        """Drop the whole batches from the one with `target` on."""
        if target >= self.end:
            return
        while self.records and self.records[-1].offset >= target:
            batch = self.records[-1].batch
            while self.records and self.records[-1].batch == batch:
                self.records.pop()
            target = min(target, batch)
        self.end = target
        self.start = min(self.start, self.end)
        state = self.log.producers.get(7)
        self.sequence = state.last_sequence + 1 if state is not None else 0
        self.epoch += 1

    # --- invariants ----------------------------------------------------------------------------------

    def visible(self) -> list[Expected]:
        return [record for record in self.records if record.offset >= self.start]

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.recovery_point <= self.end

    @invariant()
    def every_record_is_read(self) -> None:
        read = [(record.offset, record.timestamp, record.value) for record in read_all(self.log)]
        assert read == [(record.offset, record.timestamp, record.value) for record in self.visible()]

    @invariant()
    def timestamps_find_their_records(self) -> None:
        visible = self.visible()
        for record in visible[::7]:
            for target in (record.timestamp, record.timestamp + 1):
                expected = next((other.offset for other in visible if other.timestamp >= target), None)
                found = self.log.find_offset_by_timestamp(target)
                assert (found.offset if found is not None else None) == expected

    @invariant()
    def epochs_agree(self) -> None:
        for record in self.visible()[::5]:
            assert self.log.epoch_at(record.offset) == record.epoch

    @invariant()
    def the_producer_is_remembered(self) -> None:
        state = self.log.producers.get(7)
        if state is not None:
            assert state.last_sequence == self.sequence - 1


LogAgainstList.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLogAgainstList = LogAgainstList.TestCase
