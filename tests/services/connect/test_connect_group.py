"""Several workers: shared tasks, take-over after kill -9 and after a freeze, and requests to any of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.connect.workers import ConnectWorker, Mark, marks, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.slow

PARTITIONS = 4


@pytest.fixture
def workers(broker: OttlaBroker | ApacheKafka, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    """Two workers of one group, new to the broker."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "offset.storage.topic": f"{group}-offsets",
    }
    with ExitStack() as stack:
        yield [
            stack.enter_context(ConnectWorker.start(broker.bootstrap, tmp_path, settings)) for _ in range(2)
        ]


def make(worker: ConnectWorker, name: str, path: Path) -> None:
    """A source with a task for each partition."""
    worker.put(
        name, **{"tasks.max": str(PARTITIONS), "test.partitions": str(PARTITIONS), "test.marks": str(path)}
    )


def live(path: Path) -> dict[tuple[str, int], list[Mark]]:
    """The runs that have begun and not ended, in processes that are there."""
    found: dict[tuple[str, int], dict[tuple[int, int], Mark]] = {}
    for mark in marks(path):
        runs = found.setdefault((mark.connector, mark.task), {})
        if mark.word == "start":
            runs[mark.pid, mark.number] = mark
        else:
            runs.pop((mark.pid, mark.number), None)
    return {id: [run for run in runs.values() if is_alive(run.pid)] for id, runs in found.items()}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][:1]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_tasks_are_shared_and_those_of_a_killed_worker_are_taken_over(
    workers: list[ConnectWorker], tmp_path: Path
) -> None:
    path = tmp_path / "marks"
    make(workers[1], "c", path)
    for worker in workers:
        worker.wait_for("c", "RUNNING", PARTITIONS)
    until(lambda: {run.pid for runs in live(path).values() for run in runs}, lambda found: len(found) == 2)
    assert all(len(runs) == 1 for runs in live(path).values())
    # A client that writes through any worker reads its own write there.
    for number, worker in enumerate(workers):
        assert (
            worker.ask(
                "PUT", f"/connectors/d{number}/config", {"connector.class": "FileStreamSink", "topics": "t"}
            ).status
            == 201
        )
        assert worker.ask("GET", f"/connectors/d{number}/config").status == 200
    workers[0].kill()
    # At once: the request waits for the next leader, which may be the worker that was asked. It is refused
    # with 500 where a connection to the dead leader took it: nobody knows whether it was obeyed.
    until(lambda: workers[1].ask("PUT", "/connectors/c/pause").status, lambda status: status == 202)
    workers[1].wait_for("c", "PAUSED", PARTITIONS)
    assert workers[1].ask("PUT", "/connectors/c/resume").status == 202
    until(
        lambda: live(path),
        lambda found: len(found) == PARTITIONS + 1 and all(len(runs) == 1 for runs in found.values()),
    )
    workers[1].wait_for("c", "RUNNING", PARTITIONS)


def test_whoever_is_asked_tells_running_only_when_no_former_run_is_left(
    workers: list[ConnectWorker], tmp_path: Path
) -> None:
    make(workers[0], "c", tmp_path / "marks-0")
    workers[0].wait_for("c", "RUNNING", PARTITIONS)
    for change in range(1, 5):
        asked = workers[change % 2]
        make(asked, "c", tmp_path / f"marks-{change}")
        asked.wait_for("c", "RUNNING", PARTITIONS)
        former, present = (live(tmp_path / f"marks-{each}") for each in (change - 1, change))
        assert not any(former.values())
        assert [len(runs) for runs in present.values()] == [1] * (PARTITIONS + 1)


def test_a_frozen_workers_runs_are_dead_before_another_worker_begins_them(
    workers: list[ConnectWorker], tmp_path: Path
) -> None:
    path = tmp_path / "marks"
    make(workers[0], "c", path)
    workers[0].wait_for("c", "RUNNING", PARTITIONS)
    until(lambda: {run.pid for runs in live(path).values() for run in runs}, lambda found: len(found) == 2)
    count = len(marks(path))
    workers[0].freeze()
    taken_over = until(lambda: marks(path)[count:], lambda found: found)
    # The moment in which the first of its tasks begins elsewhere: no process of the frozen one is there.
    pids = {mark.pid for mark in taken_over}
    for runs in live(path).values():
        assert {run.pid for run in runs} <= pids | {_other(path, pids)}
        assert len(runs) <= 1
    until(
        lambda: live(path),
        lambda found: len(found) == PARTITIONS + 1 and all(len(runs) == 1 for runs in found.values()),
    )
    workers[0].thaw()
    until(lambda: {run.pid for runs in live(path).values() for run in runs}, lambda found: len(found) == 2)
    workers[0].wait_for("c", "RUNNING", PARTITIONS)
    assert all(len(runs) == 1 for runs in live(path).values())


def _other(path: Path, pids: set[int]) -> int:
    """The process of the worker that was never frozen: the one that still lives."""
    return next(
        (mark.pid for mark in marks(path) if mark.pid not in pids and is_alive(mark.pid)), os.getpid()
    )


def test_a_worker_that_joins_takes_its_share_and_the_others_go_on(
    broker: OttlaBroker | ApacheKafka, workers: list[ConnectWorker], tmp_path: Path
) -> None:
    path = tmp_path / "marks"
    for number in range(3):
        make(workers[0], f"c{number}", path)
    for number in range(3):
        workers[0].wait_for(f"c{number}", "RUNNING", PARTITIONS)
    workers[1].server.stop()
    until(
        lambda: live(path),
        lambda found: len(found) == 15 and all(len(runs) == 1 for runs in found.values()),
    )
    assert len({run.pid for runs in live(path).values() for run in runs}) == 1
