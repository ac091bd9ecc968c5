"""The runner over a query of Spark's that is made up here: ends, stops and losses that Spark seldom shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.pipeline.query import query as query_module
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
        self.error: Exception | None = None
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

    def exception(self) -> Exception | None:
        return self.error

    def fail(self, text: str) -> None:
        self.error = RuntimeError(text)
        self.isActive = False

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
    """A DataStreamWriter that starts one query after the other."""

    def __init__(self, queries: Sequence[FakeQuery]) -> None:
        self._queries = list(queries)

    def __getattr__(self, name: str) -> Callable[..., FakeWriter]:
        return lambda *_, **__: self

    def start(self) -> FakeQuery:
        return self._queries.pop(0)


def start(runner: QueryRunner, directory: Path, *queries: FakeQuery, name: str = "orders") -> PipelineQuery:
    admission = Admission(QuerySpec(name, directory, []), (), Beginning.NEW, ())
    return runner.start(admission, cast(Any, FakeWriter(queries)))


@pytest.fixture
def fake() -> FakeQuery:
    return FakeQuery()


def make_runner(**callbacks: Any) -> QueryRunner:
    return QueryRunner(cast(Any, SimpleNamespace()), **callbacks)


def test_every_batch_is_told_once_and_in_order(fake: FakeQuery, tmp_path: Path) -> None:
    told: list[int] = []
    runner = make_runner(on_progress=lambda _, progress: told.append(progress.batch_id))
    query = start(runner, tmp_path, fake)

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
    query = start(runner, tmp_path, fake)
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
    query = start(runner, tmp_path, fake)
    assert not query.stop(0.05)
    assert query.state is QueryState.STOPPED
    runner.close()


def test_a_spark_that_is_gone_ends_its_queries(fake: FakeQuery, tmp_path: Path) -> None:
    ended: list[PipelineQuery] = []
    runner = make_runner(on_end=ended.append)
    query = start(runner, tmp_path, fake)

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
    start(runner, tmp_path, fake)
    fake.stop()
    assert closed.wait(20)


def test_a_watcher_that_fails_does_not_disturb_the_query(fake: FakeQuery, tmp_path: Path) -> None:
    def watch(query: PipelineQuery, progress: QueryProgress) -> None:
        raise ValueError("not my day")

    runner = make_runner(on_progress=watch)
    query = start(runner, tmp_path, fake)
    fake.batch(0)
    eventually(lambda: query.progress is not None, "the batch is seen")
    assert query.state is QueryState.RUNNING
    fake.triggers = False
    runner.close()


WORKER_IS_LATE = "SparkException: Timed out while waiting for the Python worker to connect back"


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "RESTART_WAITS_SECONDS", (0.0, 0.0))


@pytest.mark.usefixtures("no_waits")
@pytest.mark.parametrize(
    "text",
    [
        WORKER_IS_LATE,
        "Job aborted: Task 0 failed 4 times: SparkException: Python worker exited unexpectedly (crashed)",
        "SparkException: Python worker failed to connect back.",
        "IllegalStateException: Python daemon failed to launch worker with code 1",
    ],
)
def test_a_query_whose_python_did_not_start_is_started_again(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, text: str
) -> None:
    first, second = FakeQuery(), FakeQuery()
    first.fail(text)
    ended: list[PipelineQuery] = []
    runner = make_runner(on_end=ended.append)

    query = start(runner, tmp_path, first, second)

    assert query.query is cast(Any, second)
    assert query.state is QueryState.RUNNING
    assert ended == []
    (line,) = [each.getMessage() for each in caplog.records if "started again" in each.getMessage()]
    assert text.rpartition(": ")[2] in line
    second.batch(0)
    eventually(lambda: query.progress is not None, "the second one's batches are told")
    second.triggers = False
    runner.close()
    assert query.state is QueryState.STOPPED


@pytest.mark.usefixtures("no_waits")
def test_a_query_is_started_again_a_few_times_in_a_row_and_after_each_batch_anew(tmp_path: Path) -> None:
    runner = make_runner()
    queries = [FakeQuery() for _ in range(6)]
    for each in queries[:2]:
        each.fail(WORKER_IS_LATE)
    query = start(runner, tmp_path, *queries)
    queries[2].batch(0)
    eventually(lambda: query.progress is not None, "a batch is told")

    for each in queries[2:]:
        each.fail(WORKER_IS_LATE)

    with pytest.raises(QueryError, match="Timed out while waiting"):
        query.await_termination(20)
    assert query.query is cast(Any, queries[4])
    runner.close()


@pytest.mark.usefixtures("no_waits")
def test_an_exception_of_a_function_is_told_at_once_whatever_it_says(tmp_path: Path) -> None:
    first = FakeQuery()
    trace = "Traceback (most recent call last):\n  File 'app.py', line 1\n"
    first.fail(f"PythonException: {trace}ValueError: Python worker exited unexpectedly")
    runner = make_runner()

    with pytest.raises(QueryError, match="ValueError: Python worker exited unexpectedly"):
        start(runner, tmp_path, first)
    runner.close()


def test_a_query_that_waits_for_its_next_start_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(query_module, "RESTART_WAITS_SECONDS", (1_000.0,))
    monkeypatch.setattr(query_module, "SETTLE_TIMEOUT_SECONDS", 0.1)
    first = FakeQuery()
    runner = make_runner()
    query = start(runner, tmp_path, first)
    first.fail(WORKER_IS_LATE)
    eventually(lambda: query._restart_at is not None, "it waits")

    assert query.stop(20)

    assert query.state is QueryState.STOPPED
    runner.close()


def test_ended_queries_are_kept_up_to_a_number_and_running_ones_always(
    fake: FakeQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_module, "ENDED_QUERIES", 3)
    runner = make_runner()
    start(runner, tmp_path, fake, name="runs")

    def idle() -> FakeQuery:
        found = FakeQuery()
        found.triggers = False
        return found

    for number in range(10):
        start(runner, tmp_path, idle(), name=f"ends-{number}").stop(20)
    assert [each.name for each in runner.queries] == ["runs", *(f"ends-{each}" for each in (6, 7, 8, 9))]
    start(runner, tmp_path, idle(), name="ends-7").stop(20)
    assert [each.name for each in runner.queries] == ["runs", *(f"ends-{each}" for each in (6, 8, 9, 7))]
    fake.triggers = False
    runner.close()
