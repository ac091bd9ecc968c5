"""What the programs of bench/java answer, and how they are asked."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from bench import connection_clients
from bench.connection_clients import (
    Counted,
    Idled,
    JavaClients,
    Reread,
    Stopped,
    counted,
    idled,
    parse_answer,
    reread,
    stopped,
)
from bench.errors import BenchError
from bench.figures import Bound, Target
from bench.scenarios import catch_up, connections
from bench.servers import System


def test_an_answer_is_names_and_numbers_without_those_that_have_no_value():
    line = '{"seconds": 10.000304709, "count": 0, "p50_ms": null, "p99_ms": null}'
    assert parse_answer(line) == {"seconds": 10.000304709, "count": 0}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[WARN] NetworkClient - Bootstrap broker disconnected",
        '{"ready": ',
        "[1]",
        '{"failed": "org.apache.kafka.common.errors.TimeoutException: Topic bench not present"}',
    ],
)
def test_another_answer_is_an_error_that_shows_it(line):
    with pytest.raises(BenchError) as caught:
        parse_answer(line)
    assert line in str(caught.value)


def test_figures_are_read_by_name():
    answer = {"p99_ms": 2.5, "p50_ms": 0.5, "seconds": 2.0, "count": 3000, "records": 3}
    figures = counted(answer)
    assert figures == Counted(3000, 2.0, 0.5, 2.5)
    assert figures.per_second == 1500.0
    assert stopped({"acknowledged": 12, "records_per_request": 1.0}) == Stopped(12, 1.0)
    assert idled({"fewest_fetches": 19, "fetches": 20_000}) == Idled(19, 20_000)
    assert reread({"seconds": 1.5, "records": 10, "bytes": 1000}) == Reread(10, 1000, 1.5)


@pytest.mark.parametrize("missing", ["count", "seconds", "p50_ms", "p99_ms"])
def test_a_window_in_which_nothing_was_counted_is_an_error(missing):
    answer = {"count": 3000, "seconds": 2.0, "p50_ms": 0.5, "p99_ms": 2.5}
    for odd in ({**answer, missing: 0}, {name: answer[name] for name in answer if name != missing}):
        with pytest.raises(BenchError, match="no figures"):
            counted(odd)


def test_a_consumer_without_an_answered_fetch_is_an_error():
    with pytest.raises(BenchError, match="no figures"):
        idled({"fewest_fetches": 0, "fetches": 19_980})


@dataclass(frozen=True)
class RunningServer:
    system: System = System.OTTLA
    bootstrap: str = "127.0.0.1:9092"

    def check_running(self) -> None:
        pass

    def cpu_seconds(self) -> float:
        return 0.0


@contextmanager
def program(source: str) -> Iterator[JavaClients]:
    """Clients that are a small Python program."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    with process:
        try:
            yield JavaClients(RunningServer(), process, "Producers")
        finally:
            process.kill()


ECHO = """
print('[WARN] a word of the library')
print('{"ready": 2}', flush=True)
for line in iter(input, 'end'):
    print('{"seconds": %s}' % line.split()[1], flush=True)
print('the last words')
raise SystemExit(3)
"""


def test_a_line_is_answered_by_a_line_whatever_the_library_says_between():
    with program(ECHO) as clients:
        clients.wait_until_ready()
        assert clients.ask("measure 7") == {"seconds": 7}
        clients.begin("measure 8")
        assert clients.end() == {"seconds": 8}


def test_clients_that_end_are_an_error_with_their_last_words():
    with program(ECHO) as clients:
        clients.wait_until_ready()
        with pytest.raises(BenchError, match="Producers on ottla ended with 3") as caught:
            clients.ask("end")
        assert "the last words" in str(caught.value)


def test_clients_that_say_nothing_are_an_error(monkeypatch):
    monkeypatch.setattr(connection_clients, "READY_TIMEOUT_SECONDS", 0.01)
    with program("input()") as clients, pytest.raises(BenchError, match="said nothing"):
        clients.wait_until_ready()


@pytest.mark.parametrize(
    ("limits", "set_to"),
    [((1024, 20_000), (5000, 20_000)), ((1024, -1), (5000, -1)), ((8000, 8000), None), ((-1, -1), None)],
)
def test_the_soft_limit_of_open_files_is_raised_where_it_is_too_low(monkeypatch, limits, set_to):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: asked.append(to))
    connection_clients.allow_descriptors(5000)
    assert asked == ([] if set_to is None else [set_to])


def test_too_low_a_hard_limit_is_an_error(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    with pytest.raises(BenchError, match="5000 open files are needed and 4096 are allowed"):
        connection_clients.allow_descriptors(5000)


EXPECTED_TARGETS = {
    "records/s": Target(Bound.RATIO_AT_LEAST, 1.2),
    "MB/s": Target(Bound.RATIO_AT_LEAST, 1.2),
    "ms": Target(Bound.RATIO_AT_MOST, 0.8),
}


@pytest.mark.parametrize(
    "scenario", [*connections.SCENARIOS, *catch_up.SCENARIOS], ids=lambda scenario: scenario.name
)
def test_every_rate_and_latency_beside_the_others_has_its_target(scenario):
    for measure in scenario.measures:
        expected = None if "alone" in measure.title else EXPECTED_TARGETS.get(measure.unit)
        assert measure.target == expected, measure
