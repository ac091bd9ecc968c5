"""Directories as a power loss leaves them: how a start recovers each, beside Apache Kafka.

All of the log is above the recovery point (the node is killed before it checkpoints one), so none of it was
ever promised to be on the disk. Both cut the log where it is not whole any more and go on from there, but for
batches that are missing as a whole: there Kafka goes on with a hole.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ottla.protocol.record_batch import parse_batch_header
from support.clients.wire import WireClient, batch

BATCHES = 25
A_SEGMENT = 10
PAGE = 4096


class Files:
    """The files of a topic's partition that has three segments, of 10, 10 and 5 batches."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.logs = sorted(directory.glob("*.log"))
        assert [int(path.stem) for path in self.logs] == [0, A_SEGMENT, 2 * A_SEGMENT]

    def positions(self, segment: int) -> list[int]:
        data = self.logs[segment].read_bytes()
        position, found = 0, []
        while position < len(data):
            found.append(position)
            position += parse_batch_header(data, position).size_bytes
        return [*found, position]

    def overwrite(self, segment: int, position: int, data: bytes) -> None:
        with self.logs[segment].open("r+b") as file:
            file.seek(position)
            file.write(data)

    def truncate(self, segment: int, size: int) -> None:
        with self.logs[segment].open("r+b") as file:
            file.truncate(size)

    def remove(self, segment: int, *suffixes: str) -> None:
        for suffix in suffixes:
            self.logs[segment].with_suffix(suffix).unlink()


def page_of(position: int) -> int:
    """The first whole page behind a position: a disk loses pages, not bytes."""
    return -(-position // PAGE) * PAGE


def zero_page(segment: int, number: int) -> Callable[[Files], None]:
    """A page inside of a batch reads as zeros."""
    return lambda files: files.overwrite(segment, page_of(files.positions(segment)[number]), bytes(PAGE))


def garbage_page(segment: int, number: int) -> Callable[[Files], None]:
    return lambda files: files.overwrite(
        segment, page_of(files.positions(segment)[number]), random.randbytes(PAGE)
    )


def zero_header(segment: int, number: int) -> Callable[[Files], None]:
    """The page with a batch's header reads as zeros, with what is before and behind the header."""
    return lambda files: files.overwrite(
        segment, files.positions(segment)[number] // PAGE * PAGE, bytes(PAGE)
    )


def zero_end(segment: int, number: int) -> Callable[[Files], None]:
    def damage(files: Files) -> None:
        positions = files.positions(segment)
        files.overwrite(segment, positions[number], bytes(positions[-1] - positions[number]))

    return damage


def cut_inside(segment: int, number: int) -> Callable[[Files], None]:
    return lambda files: files.truncate(segment, files.positions(segment)[number] + 5000)


def cut_between(segment: int, number: int) -> Callable[[Files], None]:
    return lambda files: files.truncate(segment, files.positions(segment)[number])


def without_indexes(segment: int, damage: Callable[[Files], None]) -> Callable[[Files], None]:
    def both(files: Files) -> None:
        damage(files)
        files.remove(segment, ".index", ".timeindex")

    return both


def torn_indexes(files: Files) -> None:
    for path in files.directory.glob("*index"):
        path.write_bytes(random.randbytes(len(path.read_bytes()) // 2 + 1))


#: The batches that are left, by damage: 0 to N.
LEFT: dict[str, tuple[Callable[[Files], None], int]] = {
    "nothing": (lambda files: None, 25),
    "zeros-in-active": (zero_page(2, 2), 22),
    "garbage-in-active": (garbage_page(2, 2), 22),
    "zeros-over-header-in-active": (zero_header(2, 2), 21),
    "zeros-at-end-of-active": (zero_end(2, 3), 23),
    "active-cut-inside": (cut_inside(2, 3), 23),
    "active-emptied": (cut_between(2, 0), 20),
    "zeros-in-closed": (zero_page(1, 4), 14),
    "garbage-in-first": (garbage_page(0, 7), 7),
    "zeros-at-end-of-closed": (zero_end(1, 6), 16),
    "closed-cut-inside": (cut_inside(1, 6), 16),
    "indexes-torn": (torn_indexes, 25),
}
"""Kafka and ottla alike."""

LOST: dict[str, tuple[Callable[[Files], None], int]] = {
    "closed-cut-between": (cut_between(1, 6), 16),
    "closed-emptied": (cut_between(1, 0), 10),
    "closed-emptied-without-indexes": (without_indexes(1, cut_between(1, 0)), 10),
    "closed-gone": (lambda files: files.remove(1, ".log", ".index", ".timeindex"), 10),
    "first-cut-between": (cut_between(0, 7), 7),
    "first-emptied": (cut_between(0, 0), 0),
}
"""Whole batches are gone, and nothing in the files that are left is invalid: Kafka goes on with a hole."""


def test_a_log_that_a_power_loss_damaged_is_cut_and_goes_on(
    start_own: Callable[..., AbstractContextManager[Any]],
) -> None:
    damages = LEFT | LOST
    with start_own() as node:
        with WireClient.connect(node.bootstrap) as wire:
            for name in damages:
                wire.create_topic(name, config={"segment.bytes": str(1 << 20)})
                for number in range(BATCHES):
                    answer = wire.produce(name, 0, batch(value=number.to_bytes(2) * 52_000))
                    assert answer.base_offset == number
        # when
        node.kill()
        directory = getattr(node, "log_directory", None) or node.data_dir
        for name, (damage, _) in damages.items():
            damage(Files(directory / f"{name}-0"))
        node.restart()
        # then
        with WireClient.connect(node.bootstrap) as wire:
            for name, (_, left) in damages.items():
                found = [header.base_offset for header, _ in wire.read_batches(name, 0)]
                if name in LOST and node.name == "apache-kafka":
                    assert len(found) < BATCHES and found[-1] == BATCHES - 1, name
                    assert found != list(range(len(found))), name
                    continue
                assert found == list(range(left)), name
                assert wire.produce(name, 0, batch()).base_offset == left, name
        if node.name == "ottla":
            said = node.server.log_path.read_text(encoding="utf-8")
            for name in damages.keys() - {"nothing", "indexes-torn", "active-emptied"}:
                (line,) = [each for each in said.splitlines() if f"/{name}-0/" in each and " cut " in each]
                assert f"next_offset={damages[name][1]} " in line or f"offsets {damages[name][1]} to" in line
        # and a second start finds nothing more to cut
        node.kill()
        node.restart()
        with WireClient.connect(node.bootstrap) as wire:
            for name, (_, left) in damages.items():
                if name in LEFT or node.name == "ottla":
                    assert len(wire.read_batches(name, 0)) == left + 1, name
