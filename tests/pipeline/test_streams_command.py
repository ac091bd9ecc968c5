"""`ottla streams run` and `reset` as processes, on a broker and on Spark: two starts of Spark."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import descendants

BOUND_SECONDS = 120.0
# A JVM of seconds: code that is compiled quickly rather than well, and none that Spark generates.
QUICK = (
    "--spark",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "--spark",
    "spark.sql.codegen.wholeStage=false",
    "--spark",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
)
APP = """
from helper_module import shout
from pyspark.sql import functions as F

from ottla.streams import Streams, python

app = Streams("counting")
words = app.stream("lines", value=str, name="lines").flat_map_values(lambda r: F.split(r.value, " "))
loud = words.map_values(python(lambda r: shout(r.value), returns="STRING"))
counts = loud.group_by(lambda r: r.value).count(name="counts").materialize("counts")
counts.to("word-counts", key=str, value=int)

if __name__ == "__main__":
    raise AssertionError("run as a program")
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OttlaBroker]:
    with OttlaBroker.start(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "helper_module.py").write_text("def shout(word):\n    return word.upper()\n")
    (directory / "counting.py").write_text(APP)
    return directory / "counting.py"


class Command:
    """`ottla streams …` as a process; its output in a file."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.log = directory / f"command-{time.monotonic_ns()}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "streams", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=directory,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def terminate_all(self) -> None:
        """SIGTERM to each of its processes, as a service manager sends it: the JVM and workers, too."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def end(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(BOUND_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def line(self, pattern: str) -> re.Match[str]:
        """The first line that has come like this."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.output
            return re.search(pattern, self.output)

        return eventually(found)


Found = TypeVar("Found")


def eventually(look: Callable[[], Found | None]) -> Found:
    """The result of `look`, in time."""
    deadline = time.monotonic() + BOUND_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_run_serve_stop_reset_and_run_again(broker: OttlaBroker, app_file: Path, tmp_path: Path) -> None:
    cluster = KafkaCluster(broker.bootstrap)
    cluster.ensure_topics([Topic("lines", 2), Topic("word-counts", 2)])
    producer = Producer(cluster.producer_options())
    for line in ("the quick fox", "the lazy dog", "the end"):
        producer.produce("lines", value=line)
    producer.flush(BOUND_SECONDS)
    place = ("--bootstrap", broker.bootstrap, "--state", str(tmp_path / "state"))

    # given: a running application that has counted
    run = Command(
        tmp_path, "run", str(app_file), *place, *QUICK, "--queries-port", "0", "--partitions", "2", "--plain"
    )
    try:
        url = run.line(r"tables answer at (http://\S+)/tables")[1]
        with httpx.Client(base_url=url, timeout=BOUND_SECONDS) as http:
            the = eventually(
                lambda: answer if (answer := http.get("/tables/counts/keys/THE")).status_code == 200 else None
            )
            assert (the.json()["key"], the.json()["value"]) == ("THE", 3)
        eventually(
            lambda: written(cluster) == {"THE": 3, "QUICK": 1, "FOX": 1, "LAZY": 1, "DOG": 1, "END": 1}
        )

        # when: it is reset while it runs, then it is refused
        refused = Command(tmp_path, "reset", str(app_file), *place, "--yes")
        assert refused.end() == 1
        assert "stop" in refused.output.splitlines()[-1], refused.output
    finally:
        run.terminate_all()
        assert run.end() == 0, run.output
    # and: nothing of Py4J's is printed over the end, although the JVM got the signal as well
    assert run.output.splitlines()[-1] == "counting has stopped"
    assert not re.search(r"Traceback|py4j|ERROR", run.output), run.output

    # then: stopped it is reset, and nothing of it is left
    dry = Command(tmp_path, "reset", str(app_file), *place, "--dry-run")
    assert dry.end() == 0, dry.output
    assert "topic counting-counts-changelog" in dry.output
    assert cluster.topic_id("counting-counts-changelog") is not None
    unasked = Command(tmp_path, "reset", str(app_file), *place)
    assert (unasked.end(), "--yes" in unasked.output) == (1, True)
    done = Command(tmp_path, "reset", "--application", "counting", *place, "--yes", "--to-latest")
    assert done.end() == 0, done.output
    assert cluster.groups("counting") == []
    assert cluster.topic_id("counting-counts-changelog") is None
    assert not (tmp_path / "state" / "counting" / "checkpoints").exists()

    # and: the next start begins where the reset has said, counting from nothing
    producer.produce("lines", value="the new fox")
    producer.flush(BOUND_SECONDS)
    again = Command(
        tmp_path, "run", str(app_file), *place, *QUICK, "--until-caught-up", "--partitions", "2", "--plain"
    )
    assert again.end() == 0, again.output
    assert "counting has caught up" in again.output
    assert written(cluster) == {"THE": 1, "NEW": 1, "FOX": 1, "QUICK": 1, "LAZY": 1, "DOG": 1, "END": 1}
    assert not (tmp_path / "state" / "counting" / "begin.json").exists()


def written(cluster: KafkaCluster) -> dict[str, int]:
    """The last value of each key of the output topic."""
    return {
        bytes(message.key()).decode(): int.from_bytes(bytes(message.value()), "big")
        for message in cluster.read("word-counts")
    }
