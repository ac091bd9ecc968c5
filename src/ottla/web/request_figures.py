"""The figures of one service's requests: their number, their ends, their times and their bytes.

A request is told by the template of its route, never by its path, and by a method of HTTP that is known: a
client can't make series. Routes are noted by the applications that found them (`note_route`). The figures are
plain numbers that change on the event loop, a few microseconds a request, and are read at a scrape.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Final

from starlette.types import Message, Receive

from ottla.metrics.histogram import Histogram

SECONDS_A_MICROSECOND: Final = 1e-6
RATE_SECONDS: Final = 30
"""The window of the rate of requests, as in Confluent's services."""
UNMATCHED: Final = "unmatched"
"""In place of a route: the request has none, or was refused before it was looked for."""
NO_ANSWER: Final = 499
"""In place of a status: the client went away, or the connection was cut, before an answer began."""
KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "other"
MAX_ERROR_CODES: Final = 200
"""The most error codes that are told apart: answers of other instances are passed on with codes of theirs."""

_MEASURE: Final = "ottla.measure"
"""Where a request's ASGI scope has its RequestMeasure."""
_BODIES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ERROR_CODE: Final = re.compile(rb'\{\s*"error_code"\s*:\s*(\d{3,5})\b')


class Refusal(enum.StrEnum):
    """Why a request was refused before its operation was tried."""

    HOST = "host"
    AUTHENTICATION = "authentication"
    ACCESS = "access"
    BODY_BYTES = "body_bytes"
    HEAD_BYTES = "head_bytes"
    BOUNDS = "bounds"
    CONNECTIONS = "connections"
    MALFORMED = "malformed"


_BY_STATUS: Final = {
    401: Refusal.AUTHENTICATION,
    403: Refusal.ACCESS,
    413: Refusal.BODY_BYTES,
    414: Refusal.HEAD_BYTES,
    421: Refusal.HOST,
    429: Refusal.BOUNDS,
    431: Refusal.HEAD_BYTES,
}
_BUSY: Final = 503
"""As a status and as the error code: too many requests, logins or instances."""


class RequestMeasure:
    """One request under way; filled in by those that handle it."""

    __slots__ = ("begun_ns", "error_code", "refusal", "request_bytes", "response_bytes", "route", "status")

    def __init__(self) -> None:
        self.begun_ns = perf_counter_ns()
        self.route = UNMATCHED
        self.status = NO_ANSWER
        self.error_code = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.refusal: Refusal | None = None

    def counted(self, receive: Receive) -> Receive:
        """The same `receive`, whose bytes count."""

        async def counting() -> Message:
            message = await receive()
            self.request_bytes += len(message.get("body", b""))
            return message

        return counting

    def sent(self, message: Message) -> None:
        """Note a message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        body: bytes = message.get("body", b"")
        if self.status >= 400 and not self.response_bytes:
            found = _ERROR_CODE.match(body)
            if found is not None:
                self.error_code = int(found[1])
        self.response_bytes += len(body)


@dataclass(slots=True)
class OperationFigures:
    """The requests of one route and method. times: from the request's head to the end of its answer."""

    statuses: Counter[int] = field(default_factory=Counter)
    times: Histogram = field(default_factory=lambda: Histogram(SECONDS_A_MICROSECOND))
    request_bytes: int = 0
    response_bytes: int = 0


class RequestFigures:
    """The figures of one service. Changed and read on the event loop alone."""

    def __init__(self) -> None:
        self.operations: dict[tuple[str, str], OperationFigures] = {}
        """By route and method."""
        self.errors: Counter[int] = Counter()
        """By the service's error code, which is the status where an answer tells none; 0: all others."""
        self.refused: Counter[Refusal] = Counter()
        self.in_flight = 0
        self.connections = 0
        self.connections_opened = 0
        self.recent = RecentEvents()

    def begin(self, scope: MutableMapping[str, Any]) -> RequestMeasure:
        """A request has come; `end` must follow."""
        self.in_flight += 1
        measure = scope[_MEASURE] = RequestMeasure()
        return measure

    def end(self, method: str, measure: RequestMeasure) -> None:
        """The request has ended, in whichever way."""
        self.in_flight -= 1
        now_ns = perf_counter_ns()
        micros = (now_ns - measure.begun_ns) // 1_000
        key = (measure.route, method if method in KNOWN_METHODS else OTHER)
        figures = self.operations.get(key)
        if figures is None:
            figures = self.operations[key] = OperationFigures()
        status = measure.status
        figures.statuses[status] += 1
        figures.times.observe(micros)
        self.recent.add(now_ns)
        figures.request_bytes += measure.request_bytes
        figures.response_bytes += measure.response_bytes
        if status >= 400:
            self._failed(status, measure)

    def refuse(self, refusal: Refusal) -> None:
        """A request was refused that never reached the service."""
        self.refused[refusal] += 1

    def _failed(self, status: int, measure: RequestMeasure) -> None:
        code = measure.error_code or status
        if code not in self.errors and len(self.errors) >= MAX_ERROR_CODES:
            code = 0
        self.errors[code] += 1
        refusal = measure.refusal or _BY_STATUS.get(status)
        if status == _BUSY and code == _BUSY:
            refusal = Refusal.BOUNDS
        if refusal is not None:
            self.refused[refusal] += 1

    def times(self) -> Histogram:
        """The times of the requests of all routes."""
        every = [operation.times for operation in self.operations.values()]
        whole = Histogram(SECONDS_A_MICROSECOND)
        if every:
            whole.counts = [sum(counts) for counts in zip(*(each.counts for each in every), strict=True)]
            whole.sum = sum(each.sum for each in every)
            whole.maximum = max(each.maximum for each in every)
        return whole

    def statuses(self) -> Counter[int]:
        """The number of requests of all routes, by status."""
        found: Counter[int] = Counter()
        for operation in self.operations.values():
            found.update(operation.statuses)
        return found


class RecentEvents:
    """Events of the last RATE_SECONDS, counted by the second."""

    __slots__ = ("_counts", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * RATE_SECONDS
        self._seconds = [-1] * RATE_SECONDS

    def add(self, now_ns: int) -> None:
        """Count an event."""
        second = now_ns // 1_000_000_000
        place = second % RATE_SECONDS
        if self._seconds[place] != second:
            self._seconds[place] = second
            self._counts[place] = 0
        self._counts[place] += 1

    def rate(self, now_ns: int) -> float:
        """Events a second."""
        oldest = now_ns // 1_000_000_000 - RATE_SECONDS
        pairs = zip(self._seconds, self._counts, strict=True)
        return sum(count for second, count in pairs if second > oldest) / RATE_SECONDS


def carries_body(method: str) -> bool:
    """Whether requests of this method may have a body."""
    return method in _BODIES


def note_route(scope: Mapping[str, Any], template: str) -> None:
    """The request goes to the route of this template."""
    measure: RequestMeasure | None = scope.get(_MEASURE)
    if measure is not None:
        measure.route = template


def note_refusal(scope: Mapping[str, Any], refusal: Refusal) -> None:
    """The request is refused for this reason, where its status alone does not tell."""
    measure: RequestMeasure | None = scope.get(_MEASURE)
    if measure is not None:
        measure.refusal = refusal
