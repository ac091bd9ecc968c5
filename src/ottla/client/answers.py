"""Answers of a cluster to librdkafka's clients: awaited for a bounded time; errors become sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ottla.client.errors import ClusterError

T = TypeVar("T")

REQUEST_TIMEOUT_SECONDS = 15.0
_MARGIN_SECONDS: Final = 5
"""For librdkafka to say itself that nothing came in time."""

# What a group's coordinator says while it starts or moves: Kafka's first group finds it so.
_COORDINATOR_STARTS: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class Answers:
    """Answers of the cluster at `bootstrap`. What fails is a ClusterError that says what was wanted."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.timeout_seconds = REQUEST_TIMEOUT_SECONDS

    def awaited(self, future: Any) -> Any:
        """What a future of the AdminClient's comes to. Raises as the future does."""
        return future.result(self.timeout_seconds + _MARGIN_SECONDS)

    def value(self, future: Any, wanted: str) -> Any:
        """The same. Raises ClusterError."""
        try:
            return self.awaited(future)
        except Exception as error:
            raise self.failure(wanted, error) from error

    def deleted(self, future: Any, missing: int) -> bool:
        """Whether something was deleted; False where the answer is `missing`. Raises as the future does."""
        try:
            self.awaited(future)
        except KafkaException as error:
            if error.args[0].code() == missing:
                return False
            raise
        return True

    def of_coordinator(self, ask: Callable[[], T], wanted: str) -> T:
        """The answer of a group's coordinator; asked again while that is only starting, or moving."""
        deadline = time.monotonic() + self.timeout_seconds
        while True:
            try:
                return ask()
            except Exception as error:
                passing = isinstance(error, KafkaException) and error.args[0].code() in _COORDINATOR_STARTS
                if not passing or time.monotonic() >= deadline:
                    raise self.failure(wanted, error) from error
                time.sleep(0.1)

    def failure(self, wanted: str, reason: object) -> ClusterError:
        """The error that says what was wanted where, and why it could not be."""
        code = reason.args[0].code() if isinstance(reason, KafkaException) else None
        return ClusterError(f"cannot {wanted} at {self.bootstrap}: {reason}", code)
