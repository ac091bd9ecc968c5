"""Records that can't be processed: they are repeated, skipped and reported, or end the task (KIP-298).

The names are Connect's, those of Java's classes too, because logs, dead letters and their readers know them.
"""

from __future__ import annotations

import enum
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.client.errors import ClusterError
from ottla.config.errors import ConfigError
from ottla.connect.data.schema import DataError
from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.plugins.api import RecordError, RetriableError

T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)

FIRST_DELAY_MS: Final = 300
TOLERANCE_EXCEEDED: Final = "Tolerance exceeded in error handler"
CONNECT_EXCEPTION: Final = "org.apache.kafka.connect.errors.ConnectException"
SINK_TASK: Final = "org.apache.kafka.connect.sink.SinkTask"
SOURCE_TASK: Final = "org.apache.kafka.connect.runtime.WorkerSourceTask"
_JAVA_NAMES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (DataError, "org.apache.kafka.connect.errors.DataException"),
    (RetriableError, "org.apache.kafka.connect.errors.RetriableException"),
    (RecordError, CONNECT_EXCEPTION),
    (ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (ClusterError, "org.apache.kafka.common.KafkaException"),
)

_log = logging.getLogger(__name__)


class Stage(enum.StrEnum):
    """The part of a task's work in which a record failed."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


class Failure(NamedTuple):
    """Why a record failed. executing_class: as configured, or Java's name of the thing."""

    stage: Stage
    executing_class: str
    error: Exception


class StageError(Exception):
    """A record failed in a stage; its cause says why."""

    def __init__(self, stage: Stage, executing_class: str) -> None:
        super().__init__(stage, executing_class)
        self.stage = stage
        self.executing_class = executing_class


class TaskFailed(Exception):
    """A task can't go on; the message is the first line of its trace."""


class Reporter(Protocol[T_contra]):
    """Takes records that failed and are skipped."""

    def report(self, record: T_contra, failure: Failure) -> None:
        """Keep a record. Raises TaskFailed."""


def java_class_name(error: BaseException) -> str:
    """The name of an exception's class: Java's where Connect has one for the same thing."""
    for kind, name in _JAVA_NAMES:
        if isinstance(error, kind):
            return name
    return f"{type(error).__module__}.{type(error).__qualname__}"


def stack_trace(error: BaseException) -> str:
    """An exception with its causes: first as Java's do, class name and message, then Python's traceback."""
    own = "".join(traceback.format_exception(error))
    return f"{java_class_name(error)}: {error}\n{own}"


def trace_of(error: BaseException) -> str:
    """The trace of a task that an exception has ended."""
    own = "".join(traceback.format_exception(error))
    name = CONNECT_EXCEPTION if isinstance(error, TaskFailed) else java_class_name(error)
    return f"{name}: {error}\n{own}"


def delay_ms(attempt: int, settings: ErrorSettings) -> int:
    """The pause after an attempt that failed (the first is 1): 300 ms, doubled each time up to the limit.

    Beyond the limit any time up to it, so that many tasks don't come back at once.
    """
    delay = FIRST_DELAY_MS << min(attempt - 1, 40)
    most = settings.retry_delay_max_ms
    return delay if delay <= most else random.randrange(most)


@dataclass(slots=True)
class Retries:
    """The attempts at one thing, and until when they go on (None: for ever)."""

    settings: ErrorSettings
    deadline: float | None
    attempts: int = 0

    @classmethod
    def of(cls, settings: ErrorSettings, *, without_limit: bool = False) -> Retries:
        """Attempts from now on. without_limit: unless errors.retry.timeout is set."""
        timeout_ms = settings.retry_timeout_ms
        endless = timeout_ms < 0 or (without_limit and timeout_ms == 0)
        return cls(settings, None if endless else time.monotonic() + timeout_ms / 1000)

    def next_delay_seconds(self) -> float | None:
        """The pause before the next attempt, or None where the time is over."""
        self.attempts += 1
        delay = delay_ms(self.attempts, self.settings) / 1000
        if self.deadline is None:
            return delay
        left = self.deadline - time.monotonic()
        return None if left <= 0 else min(delay, left)


def attempted(
    operation: Callable[[R], T], record: R, settings: ErrorSettings, rest: Callable[[float], None]
) -> T:
    """The result of an operation, attempted again as errors.retry.* say while RetriableError is the cause.

    rest: waits some seconds before the next attempt. Raises the StageError of the last attempt.
    """
    retries: Retries | None = None
    while True:
        try:
            return operation(record)
        except StageError as failed:
            if not isinstance(failed.__cause__, RetriableError):
                raise
            retries = Retries.of(settings) if retries is None else retries
            delay = retries.next_delay_seconds()
            if delay is None:
                raise
        rest(delay)


class ErrorHandler(Generic[R]):
    """Runs an operation on each record as errors.* say.

    wait: waits some seconds, and tells whether the task goes on. describe: the record in words, for logs and
    traces. reporters: where skipped records go, besides the log.
    """

    def __init__(
        self,
        settings: ErrorSettings,
        task: str,
        wait: Callable[[float], bool],
        describe: Callable[[R], str],
        reporters: tuple[Reporter[R], ...] = (),
    ) -> None:
        self.settings = settings
        self.figures: Counter[str] = Counter()
        self._task = task
        self._wait = wait
        self._describe = describe
        self._reporters = reporters

    def run(self, operation: Callable[[R], T], record: R) -> T | None:
        """The result of an operation, or None for a record that is skipped. Raises TaskFailed.

        The operation raises StageError.
        """
        try:
            return attempted(operation, record, self.settings, self._rest)
        except StageError as failed:
            self.figures["total-record-failures"] += 1
            cause = failed.__cause__
            assert isinstance(cause, Exception)
            self.failed(record, Failure(failed.stage, failed.executing_class, cause))
            return None

    def _rest(self, seconds: float) -> None:
        self.figures["total-record-failures"] += 1
        if not self._wait(seconds):
            raise Stopped
        self.figures["total-retries"] += 1

    def failed(self, record: R, failure: Failure) -> None:
        """Report a record and skip it. Raises TaskFailed where no error is tolerated."""
        self.figures["total-record-errors"] += 1
        settings = self.settings
        if settings.log:
            self.figures["total-errors-logged"] += 1
            where = f", where the record is {self._describe(record)}" if settings.log_messages else ""
            _log.error(
                "Error encountered in task %s. Executing stage '%s' with class '%s'%s.",
                self._task,
                failure.stage,
                failure.executing_class,
                where,
                exc_info=failure.error,
            )
        if settings.tolerance is Tolerance.NONE:
            raise TaskFailed(
                f"{TOLERANCE_EXCEEDED}: {failure.stage} with class {failure.executing_class} failed at "
                f"{self._describe(record)}: {java_class_name(failure.error)}: {failure.error}"
            ) from failure.error
        for reporter in self._reporters:
            reporter.report(record, failure)
        self.figures["total-records-skipped"] += 1


class Stopped(Exception):
    """The task was told to stop while it repeated an operation: the record is neither done nor skipped."""
