"""The exactly-once sink's units in a process of their own, without Spark: batches in a loop, to be killed.

The program keeps a log of finished batches as Spark does, writes every unit of a batch by `write_task` in an
order of its own, and goes on at the first batch that is not finished. It ends with FENCED when another run of
it has taken over, and kills itself within a batch when it is told to. UnitKills.java does the same with the
units that the JVM writes; `UnitProgram` starts either.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ottla.pipeline.sink.exactly_once_jvm import java_options
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


@dataclass(frozen=True, slots=True)
class UnitProgram:
    """The program in Python or in Java, with the cluster and the topic that it writes to."""

    bootstrap: str
    topic: str
    log: Path
    batches: int
    java: tuple[str, ...] | None = None
    """The command of UnitKills.java; None for Python."""

    def command(self, run: str, dies_in_batch: int = -1, after_units: int = 0) -> list[str]:
        """The command line of a run. dies_in_batch, after_units: where it kills itself; -1: nowhere."""
        told = (str(self.log), run, str(self.batches), str(dies_in_batch), str(after_units))
        if self.java is not None:
            options = (
                java_options(SinkSettings(self.bootstrap, self.topic, Identity.SOURCE, self.topic)) or {}
            )
            return [*self.java, *told, *(f"{name}={value}" for name, value in options.items())]
        names = ("directory", "run", "batches", "dies-in-batch", "after-units")
        given = [part for name, value in zip(names, told, strict=True) for part in (f"--{name}", value)]
        given += ["--bootstrap", self.bootstrap, "--name", self.topic, "--topic", self.topic]
        return [sys.executable, __file__, *given]

    def is_ready(self, run: str) -> bool:
        """Whether a run is about to write."""
        return (self.log / f"ready {run}").exists()


def java_command(directory: Path) -> tuple[str, ...]:
    """The command of UnitKills.java, compiled into `directory`, with Spark's jars and ottla's own."""
    from ottla.pipeline.spark.java_runtime import find_java
    from ottla.pipeline.spark.jvm_classes import classes_jar
    from ottla.pipeline.spark.session import installed_spark
    from ottla.pipeline.spark.spark_jars import kafka_connector_jars
    from support.java.java_tools import compile_java

    java, (home, version) = find_java(), installed_spark()
    jars = kafka_connector_jars(version)
    own = classes_jar(java, home, jars)
    assert own is not None, "ottla's classes can't be compiled"
    every = os.pathsep.join(map(str, [own, *jars, *sorted((home / "jars").glob("*.jar"))]))
    source = Path(__file__).with_name("UnitKills.java")
    class_path = compile_java([source], every, directory)
    flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-Xshare:auto")
    return (str(java.executable), *flags, "-cp", class_path, source.stem)


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
    (directory / f"ready {given.run}").touch()
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
