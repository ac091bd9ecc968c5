"""Compaction against a model: any batches, transactions and codecs, cleaned in any rounds, with restarts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.protocol.compression import Codec
from ottla.storage.log import Log
from support.exploration import examples
from support.storage.compaction import (
    COMPACTED,
    clean,
    contents,
    end_transaction,
    headers,
    last_stable_offset,
    put,
)
from support.storage.logs import NOW_MS, open_log

RETENTION_MS = 1000
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"x" * 63, b"y" * 64, b"z" * 300])
VALUES = st.none() | st.binary(max_size=40)
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8)
PRODUCERS = st.integers(min_value=1, max_value=2)


@dataclass
class Model:
    """Every record that was written, and the outcome of its transaction."""

    records: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    horizons: dict[int, int] = field(default_factory=dict)
    """The times from which tombstones may be dropped, set by their first cleaning."""

    def last_offsets(self, end_offset: int) -> dict[bytes, int]:
        """key -> offset of its last valid record below `end_offset`."""
        last: dict[bytes, int] = {}
        for offset, (key, _) in self.records.items():
            if offset < end_offset and offset not in self.aborted:
                last[key] = offset
        return last

    def after_cleaning(self, end_offset: int, rewritten_end: int, now_ms: int) -> None:
        """Remove the records that a cleaning whose map ended at `end_offset` removes."""
        last = self.last_offsets(end_offset)
        for offset in list(self.records):
            key, value = self.records[offset]
            if offset >= rewritten_end:
                break
            if offset in self.aborted or offset < last.get(key, -1):
                self._drop(offset)
            elif value is None and offset < end_offset:
                horizon = self.horizons.get(offset)
                if horizon is not None and horizon <= now_ms:
                    self._drop(offset)

    def _drop(self, offset: int) -> None:
        del self.records[offset]
        self.horizons.pop(offset, None)


class CompactionAgainstModel(RuleBasedStateMachine):
    """One log through a life of producing, cleaning and restarting."""

    @initialize(segment_bytes=st.integers(300, 3000), map_bytes=st.sampled_from([1, 1 << 20]))
    def begin(self, segment_bytes: int, map_bytes: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.config = replace(
            COMPACTED,
            segment_bytes=segment_bytes,
            index_interval_bytes=150,
            delete_retention_ms=RETENTION_MS,
            file_delete_delay_ms=0,
        )
        self.map_bytes = map_bytes
        self.log: Log = open_log(Path(self.directory.name), self.config)
        self.model = Model()
        self.sequences: dict[int, int] = {}
        self.checkpoint: int | None = None
        self.now_ms = NOW_MS

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.close_files()
            self.directory.cleanup()

    # --- operations ---------------------------------------------------------------------------------

    @rule(records=RECORDS, codec=st.sampled_from(Codec), timestamp=st.integers(0, 500))
    def produce(self, records: list[tuple[bytes, bytes | None]], codec: Codec, timestamp: int) -> None:
        base = put(self.log, records, codec=codec, timestamp=NOW_MS + timestamp)
        self.model.records |= {base + at: record for at, record in enumerate(records)}

    @rule(records=RECORDS, codec=st.sampled_from(Codec), producer=PRODUCERS, transactional=st.booleans())
    def produce_idempotently(
        self, records: list[tuple[bytes, bytes | None]], codec: Codec, producer: int, transactional: bool
    ) -> None:
        transactional = transactional or producer in self.model.open
        sequence = self.sequences.get(producer, 0)
        base = put(
            self.log, records, codec=codec, producer_id=producer, producer_epoch=0, base_sequence=sequence,
            transactional=transactional,
        )  # fmt: skip
        self.sequences[producer] = sequence + len(records)
        offsets = range(base, base + len(records))
        self.model.records |= dict(zip(offsets, records, strict=True))
        if transactional:
            self.model.open.setdefault(producer, []).extend(offsets)

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_a_transaction(self, producer: int, committed: bool) -> None:
        offsets = self.model.open.pop(producer, [])
        end_transaction(self.log, producer, committed=committed)
        if not committed:
            self.model.aborted.update(offsets)

    @rule(records=RECORDS, producer=PRODUCERS, committed=st.booleans())
    def produce_a_transaction(
        self, records: list[tuple[bytes, bytes | None]], producer: int, committed: bool
    ) -> None:
        self.produce_idempotently(records, Codec.NONE, producer, True)
        self.end_a_transaction(producer, committed)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(
        roll=st.sampled_from([True, True, True, False]),
        later_ms=st.sampled_from([0, 1, RETENTION_MS - 1, RETENTION_MS, 5 * RETENTION_MS]),
    )
    def clean(self, roll: bool, later_ms: int) -> None:
        self.now_ms += later_ms
        if roll:
            self.log.roll(NOW_MS)
        groups_end = self._clean_and_tell_the_model()
        for offset, (_, value) in self.model.records.items():
            if value is None and offset < groups_end:
                self.model.horizons.setdefault(offset, self.now_ms + RETENTION_MS)

    def _clean_and_tell_the_model(self) -> int:
        active = self.log.segments[-1].base_offset
        ends = {each.base_offset: each.end_offset for each in self.log.segments[:-1]}
        end_offset, _ = clean(self.log, self.checkpoint, now_ms=self.now_ms, map_bytes=self.map_bytes)
        rewritten = max((end for base, end in ends.items() if base < end_offset), default=0)
        self.checkpoint = end_offset
        assert rewritten <= active
        # A batch gets one horizon for all its tombstones: the model sets it for each record, which is the
        # same, because they are first cleaned together.
        self.model.after_cleaning(end_offset, rewritten, self.now_ms)
        return rewritten

    @rule(clean_shutdown=st.booleans(), forget_checkpoint=st.booleans())
    def restart(self, clean_shutdown: bool, forget_checkpoint: bool) -> None:
        if clean_shutdown:
            self.log.close()
        else:
            self.log.close_files()
            for snapshot in self.log.directory.glob("*.snapshot"):
                snapshot.unlink()  # the remaining log has to give the same states
        end, epochs = self.log.log_end_offset, self.log.leader_epochs
        self.log = open_log(
            Path(self.directory.name), self.config, clean_shutdown=clean_shutdown, now_ms=NOW_MS
        )
        assert (self.log.log_end_offset, self.log.leader_epochs) == (end, epochs)
        self.log.producers.on_high_watermark(self.log.log_end_offset)
        if forget_checkpoint:
            self.checkpoint = None

    # --- invariants ----------------------------------------------------------------------------

    @invariant()
    def the_log_holds_what_the_model_holds(self) -> None:
        if hasattr(self, "model"):
            assert contents(self.log) == self.model.records

    @invariant()
    def offsets_grow(self) -> None:
        if hasattr(self, "model"):
            last = -1
            for header in headers(self.log):
                assert header.base_offset > last
                last = header.last_offset

    @invariant()
    def every_offset_leads_to_the_next_record(self) -> None:
        if not hasattr(self, "model"):
            return
        end = self.log.log_end_offset
        for offset in range(0, end, 5):
            piece = self.log.read(offset, 1 << 20, upper_offset=end, at_least_one_batch=True)
            following = [header.last_offset for header in headers(self.log) if header.last_offset >= offset]
            assert (piece.size_bytes == 0) == (not following)

    @invariant()
    def a_committed_reader_is_told_of_every_aborted_record(self) -> None:
        if not hasattr(self, "model"):
            return
        entries = self.log.aborted_transactions(0, self.log.log_end_offset)
        for header in headers(self.log):
            if header.is_control or not header.is_transactional or not header.record_count:
                continue
            aborted = header.base_offset in self.model.aborted
            told = any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in entries
            )
            if header.last_offset < last_stable_offset(self.log):
                assert told == aborted, header

    @invariant()
    def sequences_are_known(self) -> None:
        if hasattr(self, "model"):
            for producer, sequence in self.sequences.items():
                state = self.log.producers.get(producer)
                assert state is not None and state.last_sequence == sequence - 1


CompactionAgainstModel.TestCase.settings = settings(
    max_examples=examples(20, deep=400),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCompactionAgainstModel = CompactionAgainstModel.TestCase
