"""A reset removes all traces of an application, and can be interrupted anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.pipeline.file_lock import FileLock
from ottla.streams.dsl import Streams
from ottla.streams.run import reset as module
from ottla.streams.run.reset import (
    ResetError,
    ResetPlan,
    beginning_after_reset,
    forget_beginning,
    plan_reset,
    reset,
)
from support.servers.ottla_broker import OttlaBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    with OttlaBroker.start(tmp_path_factory.mktemp("reset") / "broker") as running:
        yield running


class Left:
    """The traces of a run of the application `shop`, and those of another application beside it."""

    def __init__(self, broker: OttlaBroker, state: Path) -> None:
        self.bootstrap, self.state = broker.bootstrap, state
        self.directory = state / "shop"
        self.cluster = KafkaCluster(broker.bootstrap)
        app = Streams("shop")
        counts = app.stream("orders", key=str).group_by_key().count(name="counts").materialize("counts")
        counts.to("totals", key=str, value=int, name="out")
        self.topology = app.topology()

    def make(self) -> None:
        names = ["orders", "totals", "shop-counts-changelog", "shop-eu-counts-changelog"]
        self.cluster.ensure_topics([Topic(name) for name in names])
        ledgers = ["shop-counts-sink-ledger", "shop-eu-counts-sink-ledger"]
        self.cluster.ensure_topics([Topic(name, config={"cleanup.policy": "compact"}) for name in ledgers])
        for group in ("shop-counts", "shop-out", "shop-eu-counts"):
            self.cluster.commit(group, "orders", {0: 0}, "ours")
        for query in ("shop-counts", "shop-out"):
            (self.directory / "checkpoints" / query / "offsets").mkdir(parents=True)
        (self.directory / "queries").mkdir()
        (self.directory / "queries" / "shop-counts.json").write_text("{}")
        (self.directory / "views").mkdir()
        (self.directory / "views" / "counts.sqlite3").write_bytes(b"")
        (self.directory / "views" / "counts.lock").write_bytes(b"")

    def plan(self, *, by_name: bool = False, begin_ms: int | None = None) -> ResetPlan:
        topology = None if by_name else self.topology
        return plan_reset("shop", topology, ClusterAccess(self.bootstrap), self.state, begin_ms=begin_ms)

    def assert_gone(self) -> None:
        there = set(self.cluster.topic_names())
        assert {"orders", "totals", "shop-eu-counts-changelog", "shop-eu-counts-sink-ledger"} <= there
        assert there.isdisjoint({"shop-counts-changelog", "shop-counts-sink-ledger"})
        assert self.cluster.groups("shop") == ["shop-eu-counts"]
        assert sorted(path.name for path in self.directory.iterdir()) in (
            ["spark.lock"],
            ["begin.json", "spark.lock"],
        )
        assert self.plan().is_empty


@pytest.fixture
def left(broker: OttlaBroker, tmp_path: Path) -> Left:
    left = Left(broker, tmp_path / "state")
    left.make()
    return left


@pytest.mark.parametrize("by_name", [False, True])
def test_all_that_is_the_applications_is_removed_and_nothing_else(left: Left, by_name: bool) -> None:
    planned = left.plan(by_name=by_name)
    assert planned.remains.topics == ("shop-counts-changelog", "shop-counts-sink-ledger")
    assert sorted(planned.remains.groups) == ["shop-counts", "shop-out"]
    removed = reset(planned)
    assert "topic shop-counts-changelog" in removed
    assert removed.count("topic shop-counts-sink-ledger") == 1
    assert "group shop-counts" in removed
    left.assert_gone()


STEPS = ["_write_beginning", "_put_aside", "remove_topic", "remove_sink", "rmtree"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_reset_that_was_broken_off_is_done_by_the_next(
    left: Left, monkeypatch: pytest.MonkeyPatch, step: str, when: str, by_name: bool
) -> None:
    class Killed(BaseException):
        pass

    owner = {"rmtree": module.shutil, "remove_topic": KafkaCluster}.get(step, module)
    real = getattr(owner, step)

    def die(*arguments: object) -> None:
        if when == "after":
            real(*arguments)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, step, die)
        reset(left.plan(begin_ms=5))

    # As long as something is left of the application's work, its groups keep it from starting anew …
    if step != "rmtree":
        assert left.cluster.groups("shop") == ["shop-counts", "shop-eu-counts", "shop-out"]
    if by_name and step == "rmtree" and when == "after":
        assert left.plan().is_empty  # … here nothing is
        return
    reset(left.plan(by_name=by_name, begin_ms=5))
    left.assert_gone()
    assert beginning_after_reset(left.directory) == 5


HOLDS_THE_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "a+")  # as Spark's JVM holds it
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_an_application_that_runs_is_not_reset(left: Left) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(left.directory / "spark.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(ResetError, match=r"the application runs in .*: stop it first"):
            reset(left.plan())
        assert (left.directory / "checkpoints").is_dir()
        holder.communicate()
    reset(left.plan())
    left.assert_gone()


def test_a_table_that_is_served_is_not_pulled_away(left: Left) -> None:
    lock = FileLock(left.directory / "views" / "counts.lock")
    assert lock.acquire()
    try:
        with pytest.raises(ResetError, match=r"the table counts in .* is being served"):
            reset(left.plan())
    finally:
        lock.release()
    assert (left.directory / "checkpoints").is_dir()


def test_without_the_code_and_without_the_state_nothing_is_guessed(left: Left, tmp_path: Path) -> None:
    with pytest.raises(ResetError, match="knows no queries of shop"):
        plan_reset("shop", None, ClusterAccess(left.bootstrap), tmp_path / "elsewhere")


def test_where_the_next_start_begins(left: Left) -> None:
    assert beginning_after_reset(left.directory) is None
    reset(left.plan(begin_ms=1_700_000_000_000))
    assert beginning_after_reset(left.directory) == 1_700_000_000_000
    forget_beginning(left.directory)
    assert beginning_after_reset(left.directory) is None
    (left.directory / "begin.json").write_text(json.dumps({"nothing": 1}))
    with pytest.raises(ResetError, match="can't be read"):
        beginning_after_reset(left.directory)
    reset(left.plan())  # without a time: where the sources say
    assert beginning_after_reset(left.directory) is None


def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Streams("shop")
    app.stream("orders").to("totals")
    monkeypatch.setattr("ottla.client.answers.REQUEST_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ClusterError):
        plan_reset("shop", app.topology(), ClusterAccess("127.0.0.1:1"), tmp_path)
