"""errors.*: repeats with Connect's pauses, tolerance, reports, and traces that name the record."""

from __future__ import annotations

import logging
import random

import pytest

from ottla.connect.data.schema import DataError
from ottla.connect.host.errors import (
    ErrorHandler,
    Failure,
    Stage,
    StageError,
    Stopped,
    TaskFailed,
    delay_ms,
    java_class_name,
    trace_of,
)
from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.plugins.api import RetriableError


def _settings(tolerance: Tolerance = Tolerance.NONE, timeout_ms: int = 0, log: bool = False) -> ErrorSettings:
    return ErrorSettings(tolerance, timeout_ms, 60_000, log, log, "", 3, False)


class Letters:
    def __init__(self) -> None:
        self.all: list[tuple[str, Failure]] = []

    def report(self, record: str, failure: Failure) -> None:
        self.all.append((record, failure))


class Trouble:
    """An operation that fails some times."""

    def __init__(self, times: int, cause: Exception) -> None:
        self.left = times
        self.cause = cause

    def __call__(self, record: str) -> str:
        if self.left:
            self.left -= 1
            raise StageError(Stage.VALUE_CONVERTER, "java.Thing") from self.cause
        return record.upper()


def _handler(settings: ErrorSettings, waits: list[float], letters: Letters) -> ErrorHandler[str]:
    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return True

    return ErrorHandler(settings, "c-0", wait, lambda record: f"record {record}", (letters,))


def test_retriable_errors_are_repeated_with_doubled_pauses() -> None:
    waits: list[float] = []
    handler = _handler(_settings(timeout_ms=-1), waits, Letters())
    assert handler.run(Trouble(5, RetriableError("away")), "a") == "A"
    assert waits == [0.3, 0.6, 1.2, 2.4, 4.8]
    assert handler.figures["total-retries"] == 5


def test_pauses_end_at_the_limit() -> None:
    for attempt in range(1, 100):
        delay = delay_ms(attempt, _settings())
        wanted = 300 * 2 ** (attempt - 1)
        assert delay == wanted if wanted <= 60_000 else 0 <= delay < 60_000


def test_without_a_retry_timeout_nothing_is_repeated() -> None:
    waits: list[float] = []
    letters = Letters()
    handler = _handler(_settings(Tolerance.ALL), waits, letters)
    assert handler.run(Trouble(1, RetriableError("away")), "a") is None
    assert waits == [] and [record for record, _ in letters.all] == ["a"]


def test_other_errors_are_skipped_and_reported_where_they_are_tolerated() -> None:
    letters = Letters()
    handler = _handler(_settings(Tolerance.ALL, -1), [], letters)
    rng = random.Random()
    bad = [rng.random() < 0.5 for _ in range(50)]
    for number, is_bad in enumerate(bad):
        found = handler.run(Trouble(int(is_bad), DataError("bad")), f"r{number}")
        assert found == (None if is_bad else f"R{number}")
    assert [record for record, _ in letters.all] == [f"r{n}" for n, is_bad in enumerate(bad) if is_bad]
    assert handler.figures["total-records-skipped"] == sum(bad)


def test_without_tolerance_the_task_fails_at_the_record(caplog: pytest.LogCaptureFixture) -> None:
    letters = Letters()
    handler = _handler(_settings(log=True), [], letters)
    with caplog.at_level(logging.ERROR), pytest.raises(TaskFailed) as failed:
        handler.run(Trouble(1, DataError("bad bytes")), "a")
    trace = trace_of(failed.value)
    assert trace.startswith(
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler: "
        "VALUE_CONVERTER with class java.Thing failed at record a: "
        "org.apache.kafka.connect.errors.DataException: bad bytes\n"
    )
    assert "Traceback" in trace
    assert letters.all == []
    assert (
        "Error encountered in task c-0. Executing stage 'VALUE_CONVERTER' with class 'java.Thing', where the "
        "record is record a." in caplog.text
    )


def test_a_stop_within_a_pause_leaves_the_record() -> None:
    letters = Letters()
    handler: ErrorHandler[str] = ErrorHandler(
        _settings(Tolerance.ALL, -1), "c-0", lambda _: False, str, (letters,)
    )
    with pytest.raises(Stopped):
        handler.run(Trouble(9, RetriableError("away")), "a")
    assert letters.all == []


def test_classes_have_the_names_that_connect_gives_them() -> None:
    assert java_class_name(RetriableError()) == "org.apache.kafka.connect.errors.RetriableException"
    assert java_class_name(ZeroDivisionError()) == "builtins.ZeroDivisionError"
