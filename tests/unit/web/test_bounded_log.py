"""A flood of warnings costs a line a second and kind, and none is lost untold."""

from __future__ import annotations

import io
import logging
import threading
import time
from collections.abc import Callable

import pytest

from ottla.web import bounded_log
from ottla.web.bounded_log import BoundedHandler

TIMEOUT_S = 20


class Log:
    """Loggers of a test whose lines one bounded handler writes."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        self.handler = BoundedHandler(logging.StreamHandler(self.text))

    def logger(self, name: str) -> logging.Logger:
        logger = logging.Logger(name)
        logger.addHandler(self.handler)
        return logger

    @property
    def lines(self) -> list[str]:
        return self.text.getvalue().splitlines()


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.001)


def test_the_first_of_a_kind_is_written_and_the_rest_of_its_second_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_log, "WINDOW_SECONDS", 0.3)
    log = Log()
    logger = log.logger("ottla.rest")
    for number in range(1000):
        logger.warning("no answer from %s", number)
    logger.error("another kind")
    until(lambda: not log.handler.counting)
    logger.warning("no answer from %s", "after")
    assert log.lines == [
        "no answer from 0",
        "another kind",
        "999 more within a second, the latest: no answer from 999",
        "no answer from after",
    ]


def test_lines_of_all_kafka_clients_are_of_one_kind() -> None:
    log = Log()
    log.logger("ottla.client").warning("%s [%s] %s", "FAIL", "rdkafka#producer-1", "refused")
    log.logger("ottla.client").error("%s [%s] %s", "ERROR", "rdkafka#producer-1", "1/1 brokers are down")
    log.logger("aiokafka.conn").error("unable to connect to %s", "127.0.0.1:1")
    assert log.lines == ["FAIL [rdkafka#producer-1] refused"]
    log.handler.close()


def test_lines_below_a_warning_are_not_bounded() -> None:
    log = Log()
    logger = log.logger("ottla.rest")
    for number in range(3):
        logger.info("number %d", number)
    assert log.lines == ["number 0", "number 1", "number 2"]


def test_the_process_s_end_writes_the_count_of_the_running_second() -> None:
    log = Log()
    logger = log.logger("ottla.rest")
    for number in range(3):
        logger.warning("number %d", number)
    log.handler.flush()
    assert log.lines == ["number 0", "2 more within a second, the latest: number 2"]


def test_texts_without_end_are_bounded_in_memory_too() -> None:
    log = Log()
    logger = log.logger("asyncio")
    for number in range(10 * bounded_log.KINDS):
        logger.warning(f"text {number}")
    assert len(log.lines) <= bounded_log.KINDS + 1
    log.handler.flush()


def test_threads_that_log_at_once_lose_no_line_of_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_log, "WINDOW_SECONDS", 0.05)
    log = Log()
    logger = log.logger("ottla.client")

    def work() -> None:
        for _ in range(500):
            logger.warning("refused")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: not log.handler.counting)
    counts = [int(line.split()[0]) for line in log.lines if " more within" in line]
    plain = log.lines.count("refused")
    assert plain + sum(counts) == 2000
