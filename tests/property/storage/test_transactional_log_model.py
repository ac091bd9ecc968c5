"""A log with transactions against a plain model, through any order of producers, ends, rolls and restarts.

The model is the list of appends: records, each of one transaction or none, and markers. The log's expected
answers follow from it: the producers with an open transaction, the last stable offset, and the records that a
read_committed consumer sees, from any start and with fetches of any size.
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

from ottla.storage.log import Log, LogConfig
from support.exploration import examples
from support.storage.logs import NOW_MS, append
from support.storage.transactions import append_marker, read_committed, stable_end

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, file_delete_delay_ms=0)
PRODUCERS = st.integers(1, 4)


@dataclass(frozen=True)
class Entry:
    """A record or a marker at an offset. `producer` None: outside of transactions."""

    offset: int
    batch: int
    producer: int | None
    epoch: int
    committed: bool | None = None
    value: bytes = b""


class TransactionsAgainstList(RuleBasedStateMachine):
    """Operations on a log, each mirrored on a list."""

    @initialize()
    def open_an_empty_log(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="transaction-model-"))
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.epochs = dict.fromkeys(range(1, 5), 0)
        self.recovery_point = 0
        self.log = self.open()

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.log.close_files()
            shutil.rmtree(self.root)

    def open(self, *, clean: bool = False) -> Log:
        return Log.open(
            self.root / "t-0",
            CONFIG,
            now_ms=NOW_MS,
            recovery_point=self.recovery_point,
            log_start_offset=self.start,
            clean_shutdown=clean,
        )

    # --- the model ------------------------------------------------------------------------------------

    def open_transactions(self) -> dict[int, int]:
        """Producer -> first offset of its open transaction."""
        found: dict[int, int] = {}
        for entry in self.entries:
            if entry.producer is None:
                continue
            if entry.committed is None:
                found.setdefault(entry.producer, entry.batch)
            else:
                found.pop(entry.producer, None)
        return found

    def aborted_transactions(self) -> list[tuple[int, int, int]]:
        """(producer, first offset, marker's offset), in the order of the markers."""
        opened: dict[int, int] = {}
        found = []
        for entry in self.entries:
            if entry.producer is None:
                continue
            if entry.committed is None:
                opened.setdefault(entry.producer, entry.batch)
                continue
            first = opened.pop(entry.producer, None)
            if first is not None and not entry.committed:
                found.append((entry.producer, first, entry.offset))
        return found

    def stable(self) -> int:
        return max(self.start, min(self.open_transactions().values(), default=self.end))

    def committed_values(self, start: int) -> list[tuple[int, bytes]]:
        fate: dict[int, bool] = {}  # the aborted transactions of the records from here on, by producer
        found = []
        stable = self.stable()
        for entry in reversed(self.entries):
            if entry.committed is not None and entry.producer is not None:
                fate[entry.producer] = entry.committed
            elif start <= entry.offset < stable and (entry.producer is None or fate[entry.producer]):
                found.append((entry.offset, entry.value))
        return found[::-1]

    # --- operations -----------------------------------------------------------------------------------

    @rule(producer=PRODUCERS, sizes=st.lists(st.integers(0, 150), min_size=1, max_size=3))
    def write_in_a_transaction(self, producer: int, sizes: list[int]) -> None:
        self.write(sizes, producer)

    @rule(sizes=st.lists(st.integers(0, 150), min_size=1, max_size=3))
    def write_outside(self, sizes: list[int]) -> None:
        self.write(sizes, None)

    def write(self, sizes: list[int], producer: int | None) -> None:
        values = [b"%d/" % (self.end + index) + b"v" * size for index, size in enumerate(sizes)]
        stamp = {}
        if producer is not None:
            stamp = {
                "producer_id": producer,
                "producer_epoch": self.epochs[producer],
                "base_sequence": self.end,
                "transactional": True,
            }
        result = append(self.log, *values, **stamp)
        assert result.base_offset == self.end
        epoch = self.epochs[producer] if producer is not None else 0
        for index, value in enumerate(values):
            self.entries.append(Entry(self.end + index, self.end, producer, epoch, None, value))
        self.end += len(values)

    @rule(producer=PRODUCERS, committed=st.booleans(), bump=st.booleans())
    def end_transaction(self, producer: int, committed: bool, bump: bool) -> None:
        self.epochs[producer] += bump
        result = append_marker(self.log, producer, self.epochs[producer], committed=committed)
        assert result.base_offset == self.end
        self.entries.append(Entry(self.end, self.end, producer, self.epochs[producer], committed))
        self.end += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(back=st.integers(0, 15))
    def truncate(self, back: int) -> None:
        target = max(self.start, self.end - back)
        self.recovery_point = min(self.recovery_point, target)
        self.log.truncate_to(target, now_ms=NOW_MS)
        self.cut(target)
        assert self.log.log_end_offset == self.end

    def cut(self, target: int) -> None:
        if target >= self.end:
            return
        kept = next(entry.batch for entry in self.entries if entry.offset >= target)
        self.entries = [entry for entry in self.entries if entry.offset < kept]
        self.end = kept
        self.start = min(self.start, kept)
        self.recovery_point = min(self.recovery_point, kept)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.recovery_point = self.log.recovery_point

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        self.log = self.open(clean=True)

    @rule()
    def be_killed(self) -> None:
        self.log.close_files()
        self.log = self.open()

    @rule()
    def be_killed_and_lose_what_is_derived(self) -> None:
        self.log.close_files()
        for path in self.log.directory.iterdir():
            if path.suffix in (".snapshot", ".txnindex"):
                path.unlink()
        self.recovery_point = 0
        self.log = self.open()

    @rule(damage=st.sampled_from([b"x", b"\0" * 34, b"\0\1" + b"\0" * 32]))
    def restart_with_a_damaged_index(self, damage: bytes) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        for path in self.log.directory.glob("*.txnindex"):
            path.write_bytes(path.read_bytes() + damage)
            break
        self.log = self.open(clean=True)

    @precondition(lambda self: self.end > self.recovery_point)
    @rule(bytes_lost=st.integers(1, 400))
    def lose_the_tail(self, bytes_lost: int) -> None:
        """A power loss: the last segment loses bytes above the recovery point."""
        self.log.close_files()
        path = max(self.log.directory.glob("*.log"))
        base = int(path.name[:20])
        first_unsafe = max(self.recovery_point, base)
        safe = 0
        for header, _ in self.log.iterate_batches(self.log.log_start_offset):
            if base <= header.base_offset < first_unsafe:
                safe += header.size_bytes
        if self.log.log_start_offset > base:
            return
        self.log.close_files()
        os.truncate(path, max(safe, path.stat().st_size - bytes_lost))
        self.log = self.open()
        self.cut(self.log.log_end_offset)

    @rule(ahead=st.integers(0, 6))
    def delete_records(self, ahead: int) -> None:
        self.start = max(self.start, min(self.end, self.start + ahead))
        self.log.advance_log_start_offset(self.start)

    # --- invariants -------------------------------------------------------------------------------

    @invariant()
    def the_same_transactions_are_open(self) -> None:
        if hasattr(self, "log"):
            known = {
                state.producer_id: state.current_txn_first_offset
                for state in self.log.producers
                if state.current_txn_first_offset >= 0
            }
            assert known == self.open_transactions()
            assert stable_end(self.log) == self.stable()

    @invariant()
    def the_index_holds_every_aborted_transaction_in_its_markers_segment(self) -> None:
        if hasattr(self, "log"):
            found = [
                (each.producer_id, each.first_offset, each.last_offset)
                for segment in self.log._segments
                for each in segment.transaction_index.entries()
            ]
            assert found == self.aborted_transactions()

    @rule(skip=st.integers(0, 40), max_bytes=st.integers(1, 1500))
    def read_committed(self, skip: int, max_bytes: int) -> None:
        start = min(self.end, self.start + skip)
        found = [(each.offset, each.value) for each in read_committed(self.log, start, max_bytes)]
        assert found == self.committed_values(start)


TestTransactionsAgainstList = TransactionsAgainstList.TestCase
TestTransactionsAgainstList.settings = settings(
    max_examples=examples(40),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
