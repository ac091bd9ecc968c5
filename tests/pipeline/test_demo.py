"""`ottla demo`, end to end: every tweet is in every store exactly once, after kills as well."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from ottla.demo.tweets import load_tweets
from support.servers.cluster import free_port
from support.servers.demo import TIMEOUT_SECONDS, DemoOnTerminal, DemoProcess
from support.servers.processes import descendants, wait_until_gone

pytestmark = [pytest.mark.slow, pytest.mark.spark]

LIMIT = 240
# Slow enough that something is still to come when the first tweets have landed.
SLOWLY = ("--rate", "15")
SOME_HAVE_LANDED = r"stored [1-9]"
ON_THE_PAGE = ("tweets.scored", "sqlite", "tantivy", "positive", "same sign", "the last tweets")
COUNTS = ("tweets", "read", "scored", "stored", "indexed", "counted")


def arguments(directory: Path, *more: str) -> list[str]:
    where = ["--data", str(directory), "--listen", f"127.0.0.1:{free_port()}"]
    return ["--once", "--limit", str(LIMIT), *where, *more]


def assert_every_tweet_arrived_once(report: dict[str, object]) -> None:
    assert {name: report[name] for name in COUNTS} == dict.fromkeys(COUNTS, LIMIT)
    assert report["exactly_once"] is True


@pytest.mark.long
def test_once_on_the_bundled_java_into_postgresql(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    try:
        url = request.getfixturevalue("postgresql_url")
    except pytest.skip.Exception:
        url = None  # the rest of this test needs no PostgreSQL
    more = ("--postgres", url) if url else ()
    with DemoProcess.start(*arguments(tmp_path, *more), environment={"OTTLA_JAVA": "bundled"}) as demo:
        report = demo.report()
        assert any("Java 21 (bundled)" in line for line in demo.lines)

    assert_every_tweet_arrived_once(report)
    if url:
        assert report["document_store"] == "postgresql"
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT count(*) FROM ottla_documents WHERE document ? 'compound'")
            assert rows.fetchone() == (LIMIT,)


def agreement_worked_out_here() -> dict[str, float]:
    tweets, analyzer = load_tweets()[:LIMIT], SentimentIntensityAnalyzer()
    human = [tweet.human_score for tweet in tweets]
    machine = [analyzer.polarity_scores(tweet.text)["compound"] for tweet in tweets]
    same = sum((a > 0) - (a < 0) == (b > 0) - (b < 0) for a, b in zip(human, machine, strict=True))
    return {
        "sign_percent": round(100 * same / LIMIT, 2),
        "pearson_r": round(statistics.correlation(human, machine), 4),
    }


def test_a_killed_pipeline_is_completed_by_the_next_run(tmp_path: Path) -> None:
    # given: a run on a terminal whose page shows that some tweets have landed, and that is killed
    with DemoOnTerminal.start("--data", str(tmp_path), "--limit", str(LIMIT), *SLOWLY) as demo:
        text = demo.read_until(r"sqlite +[1-9]") + demo.read_until("same sign")
        children = descendants(demo.process.pid)
        demo.process.kill()
        demo.process.wait(TIMEOUT_SECONDS)
    for expected in ON_THE_PAGE:
        assert expected in text
    landed = documents(tmp_path)
    assert 0 < landed < LIMIT

    # then: all of its processes have ended, the broker's and Spark's
    assert wait_until_gone(children) == {}

    # and: the next run on the same directory completes it
    with DemoProcess.start(*arguments(tmp_path)) as demo_again:
        report = demo_again.report()
    assert_every_tweet_arrived_once(report)
    assert report["agreement"] == agreement_worked_out_here()
    assert report["search_index"] == "tantivy"
    assert documents(tmp_path) == LIMIT


@pytest.mark.long
def test_a_killed_broker_ends_the_run_and_the_next_one_completes_it(tmp_path: Path) -> None:
    # given: a run whose broker is killed
    with DemoProcess.start(*arguments(tmp_path, *SLOWLY)) as demo:
        demo.wait_for_line(SOME_HAVE_LANDED)
        children = descendants(demo.process.pid)
        (broker,) = [pid for pid, command in children.items() if "ottla.demo.child_process" in command]
        os.kill(broker, signal.SIGKILL)

        # then: it says so, fails, and leaves nothing running
        code, output = demo.finish()
        assert (code, output) == (1, "")
        assert "the broker ended by signal 9" in demo.lines[-1]
        assert wait_until_gone(children) == {}

    # and: the next run on the same directory completes it
    with DemoProcess.start(*arguments(tmp_path)) as demo:
        assert_every_tweet_arrived_once(demo.report())


def documents(directory: Path) -> int:
    with closing(sqlite3.connect(directory / "documents.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM documents").fetchone()[0])


def test_ctrl_c_ends_a_run_that_is_starting(tmp_path: Path) -> None:
    with DemoOnTerminal.start("--data", str(tmp_path), "--limit", str(LIMIT)) as demo:
        demo.read_until("starting ottla on")
        children = descendants(demo.process.pid)
        demo.process.send_signal(signal.SIGINT)

        assert "PySpark" not in demo.read_until("stopped")
        assert demo.process.wait(TIMEOUT_SECONDS) == 0
        assert wait_until_gone(children) == {}


@pytest.mark.long
def test_on_a_terminal_there_is_a_page_until_ctrl_c(tmp_path: Path) -> None:
    # given: the demo on a terminal
    with DemoOnTerminal.start("--data", str(tmp_path), "--limit", str(LIMIT), "--rate", "100") as demo:
        # when: all tweets have arrived
        text = demo.read_until("each exactly once")
        children = descendants(demo.process.pid)
        for expected in ON_THE_PAGE:
            assert expected in text

        # then: Ctrl-C ends it, and all the processes that it started
        demo.process.send_signal(signal.SIGINT)
        demo.read_until("stopped")
        assert demo.process.wait(TIMEOUT_SECONDS) == 0
        assert wait_until_gone(children) == {}


def run_briefly(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", "demo", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        done = run_briefly("--once", "--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"ottla demo: port {port} on 127.0.0.1 is in use: ")


def test_a_directory_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = run_briefly("--once", "--data", str(tmp_path / "file"))

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "Give a writable directory by --data" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("--rate", "0"), ("--limit", "-1"), ("--rate", "fast"), ("--bootstrap", "a:1", "--listen", "b:2")],
)
def test_options_that_make_no_sense_are_refused(words: tuple[str, ...]) -> None:
    done = run_briefly(*words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ottla demo: ")
