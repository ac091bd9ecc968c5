"""Our calls about groups, to a coordinator that starts, moves or hangs up: no answer of it ends the process.

Each call is made in a process of its own, because librdkafka has calls that end it (a call for the offsets of
a group by its AdminClient is one, in 2.16).
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.pipeline.sink.exactly_once_ledger import LedgerEntry
from ottla.pipeline.sink.exactly_once_settings import Identity
from support.clients.moody_coordinator import GROUP, TOPIC, Mood, moody_coordinator

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ENTRY = LedgerEntry(7, "copy", "query-1", "run-1", Identity.SOURCE, 0, "2")
CALL = """
import sys
from ottla.pipeline.sink.exactly_once import SinkError, check_sink
from ottla.client.errors import ClusterError
from ottla.client.cluster import KafkaCluster
call, bootstrap, topic, group = sys.argv[1:]
cluster = KafkaCluster(bootstrap)
calls = {
    "check_sink": lambda: check_sink(bootstrap, "copy", "query-1"),
    "commits": lambda: cluster.commits(group, topic)[0].offset,
    "commit": lambda: cluster.commit(group, topic, {0: 5}),
    "groups": lambda: cluster.groups("copy"),
    "delete_group": lambda: cluster.delete_group(group),
}
try:
    print(calls[call]())
except (ClusterError, SinkError) as error:
    print("refused:", error)
"""
ANSWERS = {
    "check_sink": "None",
    "commits": "7",
    "commit": "None",
    "groups": f"['{GROUP}']",
    "delete_group": "True",
}
# Other codes that a request about a group may get: they are told, in a line.
REFUSALS = (24, 25, 30, 35, -1)


def told(call: str, moods: list[Mood]) -> str:
    with moody_coordinator(moods, ENTRY.metadata()) as coordinator:
        done = subprocess.run(
            [sys.executable, "-c", CALL, call, coordinator.bootstrap, TOPIC, GROUP],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, f"{call} {moods}: exit {done.returncode} {done.stderr[-1000:]}"
    return done.stdout.strip()


@pytest.mark.parametrize("call", ANSWERS)
def test_a_coordinator_that_starts_or_moves_is_asked_again(call: str) -> None:
    chance = random.Random(call)
    passing = [chance.choice((LOADING, NOT_AVAILABLE, NOT_COORDINATOR)) for _ in range(2)]
    # Half of the time the group is found first, and the coordinator moves between this and its offsets.
    moods: list[Mood] = [*passing, 0] if call != "check_sink" else [0, NOT_COORDINATOR, *passing, 0]
    assert told(call, moods) == ANSWERS[call]


@pytest.mark.parametrize("call", ANSWERS)
def test_what_does_not_pass_is_a_line(call: str) -> None:
    code = random.Random(call).choice(REFUSALS)
    assert told(call, [0, code] if call == "check_sink" else [code]).startswith("refused: cannot ")


def test_no_module_uses_the_call_that_ends_the_process() -> None:
    (root,) = ottla.__path__
    callers = [
        path for path in Path(root).rglob("*.py") if b".list_consumer_group_offsets" in path.read_bytes()
    ]
    assert callers == []
