"""The words, the JSON and the exit codes of `ottla doctor`, over drawn snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.cli.cluster import doctor as module
from ottla.doctor.checks.table import CHECKS
from ottla.doctor.snapshot import Gap, Part, PartitionView, Snapshot, TopicView, WhyNot
from support.clients.ottla_command import CommandRun, ottla
from support.doctor.drawn import sound, with_partitions, with_topic_settings
from support.doctor.faults import FAULTS

Run = Callable[..., CommandRun]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command on a snapshot in place of a cluster."""

    def run_on(snapshot: Snapshot, *words: str) -> CommandRun:
        async def looked(*_: Any) -> Snapshot:
            return snapshot

        monkeypatch.setattr(module, "look", looked)
        return ottla("127.0.0.1:1", "doctor", *(words or ("--sample=0",)))

    return run_on


def test_a_sound_cluster_is_told_in_one_line(run: Run) -> None:
    told = run(sound())
    assert (told.code, told.err) == (0, "")
    assert told.out == f"nothing found in {len(CHECKS)} checks of 3 brokers, 4 topics, 1 group\n"
    assert run(sound(), "--json").out == ""


def test_a_finding_is_told_with_what_mends_it(run: Run) -> None:
    told = run(with_topic_settings("orders", retention_ms="-1")(sound()))
    assert told.code == 3
    assert told.out.splitlines()[:6] == [
        "warning  retention-unbounded",
        "    1 topic without a bound: neither retention.ms nor retention.bytes, so nothing is ever deleted.",
        "    orders",
        "    mend: bound them by time or size (here a week), or say cleanup.policy=compact",
        "    $ ottla topic alter orders --config retention.ms=604800000",
        "",
    ]


def test_long_lists_are_cut_for_people_and_counted_in_json(run: Run) -> None:
    lost = PartitionView(0, -1, (1,), ())
    many = TopicView("many", False, tuple(replace(lost, index=index) for index in range(3_000)))
    snapshot = replace(sound(), topics=Part({"many": many}))
    words = ("--only=offline-partitions",)
    told = run(snapshot, *words)
    assert told.code == 4
    assert "many-0, many-1, many-2" in told.out and "and 2,990 more" in " ".join(told.out.split())
    (row,) = run(snapshot, "--json", *words).rows
    assert (len(row["subjects"]), row["more"]) == (1_000, 2_000)
    assert set(row) == {"check", "severity", "summary", "subjects", "more", "mend", "command"}
    assert len(row["command"]) < 400


def test_checks_that_were_not_made_are_told_and_count(run: Run) -> None:
    hidden = replace(sound(), topic_settings=Part(gap=Gap(WhyNot.NOT_ALLOWED, "no right to see it")))
    told = run(hidden)
    assert told.code == 3, "blindness is not soundness"
    assert "not checked: under-min-isr" in told.out and "no right to see it" in " ".join(told.out.split())
    rows = run(hidden, "--json").rows
    assert {row["check"] for row in rows} == {one.name for one in CHECKS if "topic_settings" in one.reads}
    assert {(row["not_made"], row["reason"]) for row in rows} == {("not allowed", "no right to see it")}
    absent = replace(sound(), metrics=Part(gap=Gap(WhyNot.NOT_ASKED, "say where")))
    told = run(absent)
    assert told.code == 0 and "not checked: weak-acks: say where" in told.out
    partial = replace(sound(), directories=Part(sound().directories.value, left_out=("broker 2: silent",)))
    told = run(partial)
    assert told.code == 3 and "checked in part: log-directories-offline" in told.out.replace("\n    ", " ")


def test_quiet_writes_the_names_of_checks(run: Run) -> None:
    snapshot = with_partitions("orders", lambda one: replace(one, leader=-1))(sound())
    assert run(snapshot, "-q").out.splitlines()[0] == "offline-partitions"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.check}-{fault.severity.value}")
def test_every_finding_is_told_for_people_and_machines(run: Run, fault: Any) -> None:
    snapshot = fault.change(sound())
    told = run(snapshot, "--sample=0")
    assert told.err == "" and all(len(line) <= 130 or "$ ottla" in line for line in told.out.splitlines())
    for row in run(snapshot, "--json").rows:
        assert json.loads(json.dumps(row)) == row


def test_the_list_needs_no_cluster() -> None:
    told = ottla("127.0.0.1:1", "doctor", "--list", "--json")
    assert (told.code, told.err) == (0, "")
    assert [row["check"] for row in told.rows] == [one.name for one in CHECKS]
