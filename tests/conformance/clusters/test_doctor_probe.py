"""`ottla doctor --probe`: records through every broker, in quiet times and while brokers die and come."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from support.clients.ottla_command import CommandRun, done, ottla
from support.servers.cluster import Cluster
from support.servers.clusters import NodeCluster

LEADER = 3


def probe(bootstrap: str, *words: str) -> tuple[CommandRun, dict[int | None, dict[str, Any]]]:
    """A probe, and its last figures: of each broker, and of all by None."""
    run = ottla(bootstrap, "doctor", "--json", "--probe", *words)
    assert run.err == "", run
    return run, {row["broker"]: row for row in run.rows if row["final"]}


def topics(bootstrap: str) -> set[str]:
    return {row["name"] for row in done(bootstrap, "topic", "list")}


def test_every_record_is_written_and_read_through_every_broker(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    run, rows = probe(three_nodes.bootstrap, "--for", "1.5", "--probe-topic", unique_name)
    assert run.code == 0, run
    assert set(rows) == {1, 2, 3, None}
    for row in rows.values():
        assert row["records_produced"] == row["records_consumed"] > 0
        assert (row["produce_availability"], row["consume_availability"]) == (1.0, 1.0)
        assert (row["produce_errors"], row["records_lost"], row["records_duplicated"]) == (0, 0, 0)
        assert 0 < row["records_delay_ms_p50"] <= row["records_delay_ms_p99"] <= row["records_delay_ms_max"]
    for node in (1, 2, 3):
        assert abs(rows[node]["clock_skew_ms"]) < 2_000, "all run on this machine"
    assert unique_name not in topics(three_nodes.bootstrap), "the topic was removed"


@pytest.mark.slow
def test_a_leader_that_is_killed_costs_seconds_and_no_record(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    killing = threading.Timer(2.0, three_nodes.kill, [LEADER])
    killing.start()
    at = three_nodes.nodes[1].bootstrap
    # the bootstrap server is one of those that stay
    run, rows = probe(at, "--for", "10", "--probe-topic", unique_name)
    killing.join()
    assert run.code == 3, run
    whole, killed = rows[None], rows[LEADER]
    assert (whole["records_lost"], whole["records_unread"], whole["records_duplicated"]) == (0, 0, 0)
    assert killed["produce_errors"] > 0 and killed["last_error"]
    assert 0 < killed["longest_outage_seconds"] <= killed["outage_seconds"] < 10
    assert 0 < killed["produce_availability"] < 1
    assert killed["records_consumed"] >= killed["records_produced"] > 0, "another replica went on"
    assert unique_name not in topics(at)


def test_a_topic_that_was_there_stays_and_covers_brokers_that_have_come(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    three_nodes.create_topic(unique_name, assignments=[[1, 2, 3]])
    run, rows = probe(three_nodes.bootstrap, "--for", "1", "--probe-topic", unique_name)
    assert run.code == 0 and set(rows) == {1, 2, 3, None}
    assert unique_name in topics(three_nodes.bootstrap)
    (described,) = done(three_nodes.bootstrap, "topic", "describe", unique_name)
    assert described["partition_count"] == 3
    again, _ = probe(three_nodes.bootstrap, "--for", "1", "--probe-topic", unique_name)
    assert again.code == 0, "records of another run are passed over"


def test_watching_tells_figures_again_and_again_and_ctrl_c_removes_the_topic(
    cluster: Cluster, unique_name: str
) -> None:
    line = ["doctor", "--probe", "--watch", "--every", "0.5", "--json", "--probe-topic", unique_name]
    watching = subprocess.Popen(
        [sys.executable, "-m", "ottla", *line, "--bootstrap", cluster.bootstrap],
        stdout=subprocess.PIPE,
        text=True,
        # What a shell starts in the background ignores SIGINT, and so do its children.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert watching.stdout is not None
    rows: list[dict[str, Any]] = []
    produced: list[int] = []
    while len({count for count in produced if count}) < 2:  # a busy machine may tell of no record at first
        rows += [json.loads(watching.stdout.readline()) for _ in range(2)]
        produced.append(rows[-2]["records_produced"])
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)
    assert watching.returncode == 130
    assert [row["broker"] for row in rows] == [1, None] * len(produced)
    assert produced == sorted(produced)
    assert not any(row["final"] for row in rows)
    deadline = time.monotonic() + 20
    while unique_name in topics(cluster.bootstrap):
        assert time.monotonic() < deadline


def test_words_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    for words in (
        ["--watch"],
        ["--probe", "--for", "0"],
        ["--sample", "20"],
        ["--only", "nothing"],
        ["--limit", "x=1"],
    ):
        run = ottla(cluster.bootstrap, "doctor", "-q", *words)
        assert (run.code, run.out) == (2, ""), run
