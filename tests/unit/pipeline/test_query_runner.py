"""The runner over a query of Spark's that is made up here: ends, stops and losses that Spark seldom shows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.pipeline.query.query import PipelineQuery, QueryRunner, QueryState
from ottla.pipeline.query.query_progress import QueryProgress
from ottla.pipeline.query.query_spec import Admission, Beginning, QueryError, QuerySpec
from support.clients.confluent import eventually


class FakeQuery:
    """The part of PySpark's StreamingQuery that the runner uses, with Spark Connect's answers."""

    def __init__(self) -> None:
        self.id = "an-id"
        self.runId = "a-run"
        self.isActive = True
        self.recentProgress: list[dict[str, Any]] = []
        self.triggers = True
        self.message = "Waiting for data to arrive"
        self.gone = False
        self.asked = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name in ("isActive", "status", "lastProgress") and object.__getattribute__(self, "gone"):
            raise ConnectionRefusedError("the JVM is gone")
        return object.__getattribute__(self, name)

    @property
    def status(self) -> dict[str, Any]:
        self.asked.set()
        return {"isTriggerActive": self.triggers, "message": self.message}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive = False

    def batch(self, batch_id: int, rows: int = 1) -> None:
        self.recentProgress.append(
            {
                "name": "orders",
                "batchId": batch_id,
                "timestamp": f"2026-01-01T00:00:{batch_id:02}.000Z",
                "numInputRows": rows,
                "durationMs": {"addBatch": 1},
            }
        )


class FakeWriter:
    """A DataStreamWriter that starts one query."""

    def __init__(self, query: FakeQuery) -> None:
        self._query = query

    def __getattr__(self, name: str) -> Callable[..., FakeWriter]:
        return lambda *_, **__: self

    def start(self) -> FakeQuery:
        return self._query


def start(runner: QueryRunner, query: FakeQuery, directory: Path) -> PipelineQuery:
    admission = Admission(QuerySpec("orders", directory, []), (), Beginning.NEW, ())
    return runner.start(admission, cast(Any, FakeWriter(query)))


@pytest.fixture
def fake() -> FakeQuery:
    return FakeQuery()


def make_runner(**callbacks: Any) -> QueryRunner:
    return QueryRunner(cast(Any, SimpleNamespace()), **callbacks)


def test_every_batch_is_told_once_and_in_order(fake: FakeQuery, tmp_path: Path) -> None:
    told: list[int] = []
    runner = make_runner(on_progress=lambda _, progress: told.append(progress.batch_id))
    query = start(runner, fake, tmp_path)

    for batch_id in range(5):
        fake.batch(batch_id)
    eventually(lambda: len(told) == 5, "five batches are told")
    fake.batch(5)
    fake.triggers = False
    runner.close()

    assert told == [0, 1, 2, 3, 4, 5]
    assert query.progress is not None
    assert query.progress.batch_id == 5


def test_a_stop_waits_for_the_batch_that_runs_not_for_the_next(fake: FakeQuery, tmp_path: Path) -> None:
    runner = make_runner()
    query = start(runner, fake, tmp_path)
    results: list[bool] = []
    fake.asked.clear()
    stopper = threading.Thread(target=lambda: results.append(query.stop(60)))

    stopper.start()
    assert fake.asked.wait(10)
    assert fake.isActive
    fake.batch(0)  # done, and the next runs already: a trigger is active all the time
    stopper.join(20)

    assert results == [True]
    assert query.state is QueryState.STOPPED
    runner.close()


def test_a_stop_cuts_a_long_batch_short(fake: FakeQuery, tmp_path: Path) -> None:
    runner = make_runner()
    query = start(runner, fake, tmp_path)
    assert not query.stop(0.05)
    assert query.state is QueryState.STOPPED
    runner.close()


def test_a_spark_that_is_gone_ends_its_queries(fake: FakeQuery, tmp_path: Path) -> None:
    ended: list[PipelineQuery] = []
    runner = make_runner(on_end=ended.append)
    query = start(runner, fake, tmp_path)

    fake.gone = True

    with pytest.raises(QueryError, match="query orders failed: Spark is gone"):
        query.await_termination(20)
    eventually(lambda: ended == [query], "its end is told")
    assert query.state is QueryState.FAILED
    assert query.stop()
    runner.close()


def test_who_is_told_of_an_end_may_close_the_runner(fake: FakeQuery, tmp_path: Path) -> None:
    closed = threading.Event()

    def close(_: PipelineQuery) -> None:
        runner.close()
        closed.set()

    runner = make_runner(on_end=close)
    start(runner, fake, tmp_path)
    fake.stop()
    assert closed.wait(20)


def test_a_watcher_that_fails_does_not_disturb_the_query(fake: FakeQuery, tmp_path: Path) -> None:
    def watch(query: PipelineQuery, progress: QueryProgress) -> None:
        raise ValueError("not my day")

    runner = make_runner(on_progress=watch)
    query = start(runner, fake, tmp_path)
    fake.batch(0)
    eventually(lambda: query.progress is not None, "the batch is seen")
    assert query.state is QueryState.RUNNING
    fake.triggers = False
    runner.close()
