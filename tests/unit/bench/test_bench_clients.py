"""Clients at once, with a few lines of Python in their place."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from bench import clients, payloads
from bench.clients import Production, Transcript, producer_command, run_client, run_together
from bench.errors import BenchError
from bench.scenarios.unified_logging import read_by_consumers, seconds_of_producers
from bench.servers import System

MEETING = """
import pathlib, sys, time
here, other = map(pathlib.Path, sys.argv[1:])
here.touch()
while not other.exists():
    time.sleep(0.01)
print("met", here.name)
"""


class Silent:
    """A broker that does nothing and never ends; `cpu` is what it claims to have used at each look."""

    system = System.OTTLA
    bootstrap = "127.0.0.1:1"

    def __init__(self) -> None:
        self.cpu = iter((1.0, 3.5))

    def check_running(self) -> None:
        pass

    def cpu_seconds(self) -> float:
        return next(self.cpu)


def python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def test_clients_run_at_once_and_each_has_its_own_transcript(tmp_path):
    # given two clients of which each waits for the other's file
    one, two = tmp_path / "one", tmp_path / "two"
    # when run together
    transcripts, client = run_together(
        Silent(), [python(MEETING, one, two), python(MEETING, two, one)], name="meeting"
    )
    # then both ended, and what they said is kept apart and in order
    assert [transcript.text for transcript in transcripts] == ["met one\n", "met two\n"]
    assert client.output == "met one\nmet two\n"
    assert client.server_cpu_seconds == 2.5


def test_the_lines_of_a_client_are_stamped_when_they_come():
    program = "import time; print(f'{time.time()} said', flush=True)"
    before = time.time()
    (transcript,), _ = run_together(Silent(), [python(program)], name="clock")
    (said,) = transcript.text.split()[:1]
    assert before <= float(said) <= transcript.came_at(" said")
    with pytest.raises(BenchError, match="never said 'sung'"):
        transcript.came_at("sung")


def test_a_client_that_fails_is_an_error_with_both_its_outputs_and_none_is_left_behind(tmp_path):
    waiting = (
        "import os, pathlib, sys, time\n"
        "part = pathlib.Path(sys.argv[1] + '.part')\n"
        "part.write_text(str(os.getpid())); part.rename(sys.argv[1]); time.sleep(60)"
    )
    pid = tmp_path / "pid"
    failing = (
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\n"
        "print('out'); print('err', file=sys.stderr); sys.exit(3)"
    )
    with pytest.raises(BenchError, match=r"(?s)hapless on ottla ended with 3.*out.*err"):
        run_together(Silent(), [python(failing, pid), python(waiting, pid)], name="hapless")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_failure_of_the_last_client_is_an_error_too():
    with pytest.raises(BenchError, match="late on ottla ended with 4"):
        run_together(Silent(), [python("pass"), python("raise SystemExit(4)")], name="late")


def test_a_client_that_hangs_is_an_error(monkeypatch):
    monkeypatch.setattr(clients, "CLIENT_TIMEOUT_SECONDS", 0.05)
    with pytest.raises(BenchError, match="sleeper on ottla hung"):
        run_client(Silent(), python("import time; time.sleep(60)"), name="sleeper")


def test_a_producer_sends_letters_or_lines_of_a_file(monkeypatch):
    monkeypatch.setattr(clients, "java_command", lambda _, *arguments, flags: list(arguments))
    letters = producer_command(Silent(), {"acks": "1"}, Production(30, 10, 100, "t", transaction_ms=50))
    assert letters[letters.index("--record-size") + 1] == "100" and "--payload-file" not in letters
    assert letters[letters.index("--transaction-duration-ms") + 1] == "50"
    assert letters[letters.index("--topic") + 1] == "t" and letters[-1] == "acks=1"
    lines = producer_command(Silent(), {}, Production(30, 10, 100, payload_file=Path("x.txt")))
    assert lines[lines.index("--payload-file") + 1] == "x.txt" and "--record-size" not in lines
    assert "--transactional-id" not in lines
    assert Production(30, 10, 100).counted_records == 20


def producer_lines(began: float, ended: float, *, records: int = 30) -> Transcript:
    """Of a producer that counts all but ten records, and says so only at its next report."""
    counted = records - 10
    rest = (
        "(1.00 MB/sec), 1.0 ms avg latency, 2.0 ms max latency, 1 ms 50th, 2 ms 95th, 2 ms 99th, 2 ms 99.9th."
    )
    return Transcript(
        [
            ((began + ended) / 2, "In steady state.\n"),
            (ended, f"{records} records sent, 1000.0 records/sec {rest}\n"),
            (ended, f"{counted} steady state records sent, {counted / (ended - began)} records/sec {rest}\n"),
        ]
    )


def test_producers_at_once_are_counted_from_the_first_to_the_last():
    each = Production(30, 10, 100)
    together = [producer_lines(100.0, 104.0), producer_lines(100.5, 104.5), producer_lines(99.5, 103.5)]
    assert seconds_of_producers(together, each) == pytest.approx(5.0)
    with pytest.raises(BenchError, match="lost records"):
        seconds_of_producers([*together, producer_lines(100.0, 104.0, records=29)], each)


def consumer_lines(end_second: int, fetch_ms: int, records: int) -> Transcript:
    fields = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    )
    times = f"2026-11-21 09:26:01:000+0000, 2026-11-21 09:26:{end_second:02}:500+0000"
    return Transcript([(0.0, fields), (0.0, f"{times}, 1, 1, {records}, 1, 1, {fetch_ms}, 1, 1\n")])


def test_consumers_at_once_are_counted_from_the_first_to_the_last():
    together = [consumer_lines(10, 4_000, 100), consumer_lines(9, 5_500, 101)]
    read, seconds = read_by_consumers(together, 100)
    assert (read, seconds) == (201, pytest.approx(6.5))
    with pytest.raises(BenchError, match="read 99 of 100"):
        read_by_consumers([*together, consumer_lines(9, 5_000, 99)], 100)


def test_payload_files_are_the_same_every_time(tmp_path):
    letters, events = tmp_path / "letters", tmp_path / "events"
    payloads.write_letters(letters, 10, 100)
    lines = letters.read_text().splitlines()
    assert len(lines) == 100 and {len(line) for line in lines} == {10} and len(set(lines)) == 100
    mean_bytes = payloads.write_events(events, 50)
    first = events.read_bytes()
    assert len(set(first.splitlines())) == 50
    assert mean_bytes == (len(first) - 50) / 50
    payloads.write_events(events, 50)
    assert events.read_bytes() == first
