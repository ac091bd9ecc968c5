"""Random logs, damaged at random above the recovery point, are cut to their longest undamaged beginning.

The oracle compares bytes before and after the damage. Logs have segments and batches of random sizes, leader
epochs, idempotent and transactional producers; damage is that of a power loss: pages of zeros or of other
bytes, shortened, emptied and missing files, torn indexes and snapshots.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.record_batch import BatchHeader, parse_batch_header
from ottla.storage.log import Log, LogConfig, LogCorruption
from support.exploration import examples
from support.storage.logs import NOW_MS, append, open_log, read_all
from support.storage.transactions import append_marker

PAGE = 64  # at least the header of a batch: a lost page takes a whole CRC with its bytes
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot")

FEW = settings(
    max_examples=examples(60, deep=1500), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@dataclass(frozen=True)
class Placed:
    """A batch and its position."""

    path: Path
    position: int
    data: bytes
    header: BatchHeader


@dataclass
class Life:
    """A log that was written and then not closed."""

    directory: Path
    config: LogConfig
    batches: list[Placed] = field(default_factory=list)
    recovery_point: int = 0

    @property
    def paths(self) -> list[Path]:
        return sorted((self.directory / "t-0").glob("*.log"))

    def open(self, **options: Any) -> Log:
        return open_log(self.directory, self.config, recovery_point=self.recovery_point, **options)


@contextmanager
def written(chance: random.Random, **fields: Any) -> Iterator[Life]:
    """A life of some dozen appends, flushes and rolls."""
    root = Path(tempfile.mkdtemp(prefix="power-loss-"))
    config = LogConfig(
        segment_bytes=chance.choice([300, 900, 2500, 1 << 20]), index_interval_bytes=chance.choice([1, 150]),
        **fields,
    )  # fmt: skip
    life = Life(root, config)
    log = life.open()
    sequences: dict[int, int] = {}
    epoch = 0
    for _ in range(chance.randrange(1, 50)):
        epoch += chance.random() < 0.1
        what = chance.random()
        values = [chance.randbytes(chance.randrange(120)) for _ in range(chance.randrange(1, 4))]
        producer = chance.randrange(1, 5)
        if what < 0.3:
            append(log, *values, leader_epoch=epoch)
        elif what < 0.75:
            append(
                log, *values, leader_epoch=epoch, producer_id=producer, producer_epoch=0,
                base_sequence=sequences.get(producer, 0), transactional=producer > 2,
            )  # fmt: skip
            sequences[producer] = sequences.get(producer, 0) + len(values)
        elif what < 0.9:
            append_marker(log, chance.choice([3, 4]), 0, committed=chance.random() < 0.5, leader_epoch=epoch)
        elif what < 0.95:
            log.roll(NOW_MS)
        elif chance.random() < 0.6:
            log.flush()
            life.recovery_point = log.recovery_point
    log.close_files()
    try:
        for path in life.paths:
            content, position = path.read_bytes(), 0
            while position < len(content):
                header = parse_batch_header(content, position)
                data = content[position : position + header.size_bytes]
                life.batches.append(Placed(path, position, data, header))
                position += header.size_bytes
        yield life
    finally:
        shutil.rmtree(root)


def damage(life: Life, chance: random.Random) -> None:
    """Damage a segment above the recovery point, at a random byte."""
    promised = dict.fromkeys(life.paths, 0)
    for batch in life.batches:
        if batch.header.base_offset < life.recovery_point:
            promised[batch.path] = batch.position + len(batch.data)
    hit = chance.choice(life.paths)
    content = hit.read_bytes()
    safe = promised[hit]
    if life.recovery_point > int(hit.stem) and safe == 0:
        return
    if safe >= len(content):
        return
    kind = chance.choice(["zeros", "garbage", "cut", "cut between", "empty", "gone"])
    match kind:
        case "zeros" | "garbage":
            first = -(-safe // PAGE) * PAGE + PAGE * chance.randrange(1 + (len(content) - safe) // PAGE)
            end = min(len(content), first + PAGE * chance.randrange(1, 6))
            if first < end:
                pages = bytes(end - first) if kind == "zeros" else chance.randbytes(end - first)
                hit.write_bytes(content[:first] + pages + content[end:])
        case "cut":
            hit.write_bytes(content[: chance.randrange(safe, len(content))])
        case "cut between":
            ends = [batch.position for batch in life.batches if batch.path == hit and batch.position >= safe]
            hit.write_bytes(content[: chance.choice(ends)])
        case "empty":
            hit.write_bytes(content[:safe])
        case "gone" if (
            safe == 0 and hit != life.paths[0]
        ):  # without its first segment the log looks as after retention
            hit.unlink()
            for suffix in DERIVED[:3]:
                if chance.random() < 0.5:
                    hit.with_suffix(suffix).unlink(missing_ok=True)


def damage_what_is_derived(life: Life, chance: random.Random) -> None:
    """Damage a derived file, above the recovery point only: those below were synced with their batches."""
    for path in sorted((life.directory / "t-0").iterdir()):
        if path.suffix in DERIVED and int(path.stem) >= life.recovery_point and chance.random() < 0.3:
            content = path.read_bytes()
            match chance.randrange(4):
                case 0:
                    path.unlink()
                case 1:
                    path.write_bytes(content[: chance.randrange(len(content) + 1)])
                case 2:
                    path.write_bytes(bytes(len(content)))
                case 3:
                    path.write_bytes(chance.randbytes(len(content)))


def left(life: Life) -> list[Placed]:
    """The batches before the first damaged or missing one."""
    contents = {path: path.read_bytes() for path in life.paths}
    found: list[Placed] = []
    for batch in life.batches:
        content = contents.get(batch.path, b"")
        if content[batch.position : batch.position + len(batch.data)] != batch.data:
            break
        found.append(batch)
    return found


def state(log: Log) -> tuple[object, ...]:
    """All state of a log, but for the positions of its segments."""
    producers = {  # a snapshot has the last batch of each producer
        each.producer_id: (each.epoch, each.current_txn_first_offset, list(each.batches)[-1:])
        for each in log.producers
    }
    return (
        [(record.offset, record.value) for record in read_all(log)],
        log.log_end_offset,
        producers,
        log.leader_epochs,
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
    )


def rebuilt(batches: list[Placed], config: LogConfig) -> tuple[object, ...]:
    """The state of a log that only ever had these batches."""
    with tempfile.TemporaryDirectory() as root:
        log = open_log(Path(root), config)
        for batch in batches:
            log.append(batch.data, [batch.header], now_ms=NOW_MS)
        found = state(log)
        log.close_files()
        return found


@FEW
@given(seed=st.integers(0, 2**40))
def test_the_longest_undamaged_beginning_is_left(seed: int) -> None:
    chance = random.Random(seed)
    with written(chance) as life:
        for _ in range(chance.randrange(1, 3)):
            damage(life, chance)
        damage_what_is_derived(life, chance)
        expected = rebuilt(left(life), life.config)
        if chance.random() < 0.3:
            (life.directory / "t-0" / "leader-epoch-checkpoint").write_bytes(chance.randbytes(20))
        # when
        log = life.open()
        # then
        assert state(log) == expected
        log.close_files()
        log = life.open()
        assert state(log) == expected
        # and: the log can be appended to
        for _ in range(3):
            end = log.log_end_offset
            assert append(log, b"x" * 200, leader_epoch=99).base_offset == end
        after = state(log)
        log.close()
        assert state(life.open(clean_shutdown=True)) == after


@FEW
@given(seed=st.integers(0, 2**40))
def test_a_log_that_keeps_valid_batches_is_cut_at_its_end_only(seed: int) -> None:
    chance = random.Random(seed)
    with written(chance) as life:
        damage(life, chance)
        beginning = left(life)
        before = {path: path.read_bytes() for path in life.paths}
        try:
            log = life.open(keeps_valid=True)
        except LogCorruption:
            assert {path: path.read_bytes() for path in life.paths} == before
            return
        assert state(log) == rebuilt(beginning, life.config)
        end = beginning[-1].header.next_offset if beginning else 0
        for batch in life.batches:
            if batch.header.base_offset >= end and batch.path in before:
                there = before[batch.path][batch.position : batch.position + len(batch.data)]
                assert there != batch.data


@FEW
@given(seed=st.integers(0, 2**40))
def test_a_byte_below_the_recovery_point_is_never_cut(seed: int) -> None:
    chance = random.Random(seed)
    with written(chance) as life:
        flushed = [batch for batch in life.batches if batch.header.next_offset <= life.recovery_point]
        if not flushed:
            return
        hit = chance.choice(flushed)
        content = bytearray(hit.path.read_bytes())
        content[hit.position + chance.randrange(16, len(hit.data))] ^= chance.randrange(1, 256)
        hit.path.write_bytes(content)
        before = {path: path.read_bytes() for path in life.paths}
        try:
            log = life.open()
        except LogCorruption as refused:
            assert (refused.path, refused.offset) == (hit.path, hit.header.base_offset)
        else:  # in a segment that is not read at the start
            assert int(hit.path.stem) < life.recovery_point
            assert log.log_end_offset == life.batches[-1].header.next_offset
            log.close_files()
        assert {path: path.read_bytes() for path in life.paths} == before


@pytest.mark.parametrize("seed", range(5))
def test_a_compacted_logs_holes_are_its_own(seed: int) -> None:
    chance = random.Random(seed)
    with written(chance, cleanup_policy=frozenset({"compact"})) as life:
        closed = life.paths[:-1]
        for path in closed:
            ends = [batch.position for batch in life.batches if batch.path == path and batch.position > 0]
            if ends:
                path.write_bytes(path.read_bytes()[: ends[-1]])
        life.recovery_point = 0
        log = life.open()
        assert log.log_end_offset == life.batches[-1].header.next_offset
        log.close_files()
