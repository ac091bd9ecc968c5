"""How connectors are tested without a broker: `pytest examples/connect`."""

from __future__ import annotations

import random
import time
from itertools import count
from pathlib import Path

from clock_and_pairs import ClockSource, PairSink
from ottla.connect.testing import Target, check_sink, check_source, drawn_records, settings_of


def test_the_clock_goes_on_at_each_second() -> None:
    settings = settings_of(ClockSource, {"first": str(int(time.time()) - 1000)})
    found = check_source(lambda: ClockSource(settings), limit=900)
    assert len(found) == 900


def test_the_pairs_are_written_exactly_once(tmp_path: Path) -> None:
    numbers = count()

    def new_target() -> Target:
        file = tmp_path / f"{next(numbers)}.txt"
        settings = settings_of(PairSink, {"file": str(file)})
        return Target(lambda: PairSink(settings), lambda: file.read_text().splitlines())

    records = [each for each in drawn_records(random.Random(1), 200) if "\n" not in str(each.record.value)]
    check_sink(new_target, records, exactly_once=True)
