"""Answers of a cluster to librdkafka's admin client: awaited for a bounded time; errors become sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ottla.client.errors import ClusterError

T = TypeVar("T")

REQUEST_TIMEOUT_SECONDS = 15.0
_MARGIN_SECONDS: Final = 5
"""Added to the timeout, so that librdkafka itself reports an answer that does not come in time."""

# Errors of a group's coordinator that is starting or moving, as it is for a cluster's first group.
_COORDINATOR_STARTS: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


class Answers:
    """Waits for answers of the cluster at `bootstrap`. A ClusterError names the request that failed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.timeout_seconds = REQUEST_TIMEOUT_SECONDS

    def awaited(self, future: Any) -> Any:
        """The result of a future of the AdminClient's. Raises the future's exception."""
        return future.result(self.timeout_seconds + _MARGIN_SECONDS)

    def value(self, future: Any, wanted: str) -> Any:
        """The result of the AdminClient's future. Raises ClusterError; `wanted` is the request in words."""
        try:
            return self.awaited(future)
        except Exception as error:
            raise self.failure(wanted, error) from error

    def deleted(self, future: Any, missing: int) -> bool:
        """Whether the request deleted it; False for the code `missing`. Raises the future's exception."""
        try:
            self.awaited(future)
        except KafkaException as error:
            if error.args[0].code() == missing:
                return False
            raise
        return True

    def of_coordinator(self, ask: Callable[[], T], wanted: str) -> T:
        """The answer of a group's coordinator, which is asked again while it is starting or moving."""
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
        """The error for a request that failed: its name in words, the cluster, and the reason."""
        code = reason.args[0].code() if isinstance(reason, KafkaException) else None
        return ClusterError(f"cannot {wanted} at {self.bootstrap}: {reason}", code)
