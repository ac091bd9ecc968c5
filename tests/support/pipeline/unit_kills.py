"""The exactly-once sink's units in a process of their own, without Spark: batches in a loop, to be killed.

The program keeps a log of finished batches as Spark does, writes every unit of a batch by `write_task` in an
order of its own, and goes on at the first batch that is not finished. It ends with FENCED when another run of
it has taken over, and kills itself within a batch when it is told to.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError, SinkSettings
from ottla.pipeline.sink.exactly_once_writer import TaskPlace, write_task

UNITS = 3
ROWS_A_CHUNK = 20
CHUNKS = 3
FENCED = 3


def row_ids(batch: int, unit: int) -> list[int]:
    """The rows of one unit of one batch, unique over all of them."""
    count = ROWS_A_CHUNK * CHUNKS
    return list(range((batch * UNITS + unit) * count, (batch * UNITS + unit + 1) * count))


def finished_batches(directory: Path) -> int:
    """The first batch that is not in the log."""
    return max((int(path.name) + 1 for path in directory.iterdir() if path.name.isdigit()), default=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write all batches that are not finished. Returns FENCED if another run has taken over."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "name", "topic", "run", "directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--dies-in-batch", type=int, default=-1)
    parser.add_argument("--after-units", type=int, default=0)
    given = parser.parse_args(arguments)
    directory = Path(given.directory)
    settings = SinkSettings(given.bootstrap, given.name, Identity.SOURCE, given.topic)
    order = random.Random(given.run)
    for batch in itertools.count(finished_batches(directory)):
        if batch >= given.batches:
            return 0
        for task, unit in enumerate(order.sample(range(UNITS), UNITS)):
            if (batch, task) == (given.dies_in_batch, given.after_units):
                os.kill(os.getpid(), signal.SIGKILL)
            place = TaskPlace(batch, "query", given.run, task, "")
            try:
                write_task(settings, place, _chunks(batch, unit), lambda: None)
            except SinkError as error:
                print(error, flush=True)
                if "taken over" in str(error) or "is written already" in str(error):
                    return FENCED
                raise
        if (batch, UNITS) == (given.dies_in_batch, given.after_units):
            os.kill(os.getpid(), signal.SIGKILL)
        (directory / str(batch)).touch()
    return 0


def _chunks(batch: int, unit: int) -> Iterator[pa.RecordBatch]:
    ids = row_ids(batch, unit)
    for start in range(0, len(ids), ROWS_A_CHUNK):
        values = pa.array([b"%d" % number for number in ids[start : start + ROWS_A_CHUNK]], pa.binary())
        yield pa.record_batch(
            {"value": values, "source": [{"topic": "in", "partition": unit}] * ROWS_A_CHUNK}
        )


if __name__ == "__main__":
    sys.exit(main())
