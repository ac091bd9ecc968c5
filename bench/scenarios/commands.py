"""`ottla consume` and `ottla produce` beside kcat: the same topic, in turns."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import string
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bench import clients
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.ottla_commands import COMMAND_TIMEOUT_SECONDS, ottla_environment, ottla_words
from bench.scenarios.scenario import RECORD_BYTES, Scenario, Turn
from bench.servers import Server

RECORDS = 3_000_000
ROUNDS = 5
#: librdkafka 2.0 stops fetching for up to a second when its queue is full, which a fast broker makes happen.
UNBOUNDED_QUEUE = ("-X", "queued.min.messages=10000000", "-X", "queued.max.messages.kbytes=2097151")
FOUR_FIFTHS_OF_KCAT = Target(Bound.VALUE_AT_MOST, 1.25)
"""Of its rate: five quarters of its time."""


def _consume(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        lines = _lines(turn, turn.workspace / "lines")
        clients.create_topic(server)
        _run(_ottla(server, "produce", clients.TOPIC, str(lines)), None)
        reads = {
            "ottla": _ottla(server, "consume", clients.TOPIC, "--exit"),
            "kcat": _kcat(server, "-C", "-e", "-o", "beginning"),
            "kcat_template": _kcat(server, "-C", "-e", "-o", "beginning", "-f", r"%s\n"),
            "kcat_no_pause": _kcat(server, "-C", "-e", "-o", "beginning", *UNBOUNDED_QUEUE),
        }
        figures = _in_turns(turn, reads, lines)
        first = [_run(_ottla(server, "consume", clients.TOPIC, "-n", "1"), None) for _ in range(ROUNDS)]
    return {
        **figures,
        "time_over_kcat_template": figures["kcat_template_records_per_second"]
        / figures["ottla_records_per_second"],
        "time_over_kcat_no_pause": figures["kcat_no_pause_records_per_second"]
        / figures["ottla_records_per_second"],
        "first_record_seconds": statistics.median(first),
    }


def _produce(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        lines = _lines(turn, turn.workspace / "lines")
        clients.create_topic(server)
        writes = {
            "ottla": _ottla(server, "produce", clients.TOPIC, str(lines)),
            "kcat": _kcat(server, "-P", "-l", str(lines)),
        }
        return _in_turns(turn, writes, None)


def _in_turns(turn: Turn, commands: Mapping[str, list[str]], expected: Path | None) -> dict[str, float]:
    """The rate of each command, the median of several rounds; the bytes that they write are compared."""
    records = turn.size(RECORDS)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            output = None if expected is None else turn.workspace / f"{name}.out"
            seconds[name].append(_run(command, output))
            if output is not None and expected is not None:
                if output.read_bytes() != expected.read_bytes():
                    raise BenchError(f"{name} does not write what was produced")
                output.unlink()
    rates = {name: records / statistics.median(took) for name, took in seconds.items()}
    pairs = zip(seconds["kcat"], seconds["ottla"], strict=True)
    return {
        **{f"{name}_records_per_second": rate for name, rate in rates.items()},
        "time_over_kcat": statistics.median(ottla / kcat for kcat, ottla in pairs),
    }


def _lines(turn: Turn, file: Path) -> Path:
    """A file with a line of RECORD_BYTES for each record."""
    dice = random.Random(1)
    letters = string.ascii_letters + string.digits
    pool = ["".join(dice.choices(letters, k=RECORD_BYTES)) + "\n" for _ in range(1_000)]
    with file.open("w") as written:
        for _ in range(turn.size(RECORDS) // len(pool)):
            dice.shuffle(pool)
            written.writelines(pool)
    return file


def _ottla(server: Server, *words: str) -> list[str]:
    return [*ottla_words(*words), "--bootstrap", server.bootstrap]


def _kcat(server: Server, *words: str) -> list[str]:
    if shutil.which("kcat") is None:
        raise BenchError("kcat is not there: apt-get install kcat")
    return ["kcat", "-b", server.bootstrap, "-q", "-t", clients.TOPIC, *words]


def _run(command: list[str], output: Path | None) -> float:
    """Run a command to its end; the seconds that it took."""
    began = time.perf_counter()
    with open(output or os.devnull, "wb") as written:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.PIPE,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
            env=ottla_environment(),
        )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    return seconds


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "command-consume",
        "`ottla consume TOPIC --exit > FILE` and kcat's `-C -e -q`, plain, with -f '%s\\n', and "
        f"with a queue that holds all records ({' '.join(UNBOUNDED_QUEUE)}), in turns on "
        f"3 million {RECORD_BYTES}-byte records in 1 partition, {ROUNDS} rounds, from the process's start to "
        "its end.",
        (
            Measure("ottla_records_per_second", "ottla consume", "records/s"),
            Measure("kcat_records_per_second", "kcat -C", "records/s"),
            Measure("kcat_template_records_per_second", "kcat -C -f", "records/s"),
            Measure("kcat_no_pause_records_per_second", "kcat -C, large queue", "records/s"),
            Measure("time_over_kcat", "its time over that of kcat -C", "x", FOUR_FIFTHS_OF_KCAT),
            Measure("time_over_kcat_template", "... of kcat -C -f", "x", FOUR_FIFTHS_OF_KCAT),
            Measure("time_over_kcat_no_pause", "... of kcat with the large queue", "x", FOUR_FIFTHS_OF_KCAT),
            Measure("first_record_seconds", "ottla consume -n 1", "s"),
        ),
        _consume,
    ),
    Scenario(
        "command-produce",
        f"`ottla produce TOPIC FILE` and kcat's `-P -l FILE` in turns: 3 million lines of {RECORD_BYTES} "
        f"bytes to 1 partition, {ROUNDS} rounds, from the process's start to its end.",
        (
            Measure("ottla_records_per_second", "ottla produce", "records/s"),
            Measure("kcat_records_per_second", "kcat -P -l", "records/s"),
            Measure("time_over_kcat", "its time over that of kcat -P -l", "x", FOUR_FIFTHS_OF_KCAT),
        ),
        _produce,
    ),
)
