"""Requests by API: their number by version and size, the errors in their answers, and where their time goes.

When metrics are on, the tables of handlers are wrapped; without them nothing of this is there. Every request
is counted. The two hot APIs, Produce and Fetch, are timed and their sizes taken about every TIMED_EVERY_NS,
evenly spread over their requests: to read the clock and to count a time takes 1.5 us, a tenth of a request of
one record. All other APIs are measured each time.

The parts of a request's time, as far as there are such parts here:

    local      the steps of the handler on the event loop
    remote     waiting between them: for followers, records, other nodes, threads
    throttle   the time for which the answer asks the client to wait (its connection is muted meanwhile)
    send       from the made answer to the end of the turn of the loop in which it is written to the socket
    queue      none: a request is handled when it is read, no queue is between
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ottla.broker.metrics.error_counts import ErrorCodes
from ottla.broker.network.connection import Reply
from ottla.broker.quotas.request_time import MeasuredSteps
from ottla.metrics.exposition import Family, Sample
from ottla.metrics.histogram import Histogram, Sampled
from ottla.metrics.tables import broker as table
from ottla.protocol.apis import ApiKey, advertised_versions
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    from ottla.broker.network.context import RequestContext
    from ottla.broker.network.dispatch import Handler, Handlers, RawHandler
    from ottla.broker.replication.partitions import Partitions
    from ottla.protocol.schema import Message

TIMED_EVERY_NS: Final = 25_000_000
MOST_UNTIMED: Final = 4_096
MICROSECOND_IN_MS: Final = 0.001
OTHER_CLIENTS: Final = ("other", "other")
T = TypeVar("T")


class Measured:
    """The times of the requests that were measured, in microseconds, and their sizes."""

    __slots__ = ("local", "remote", "request_bytes", "send", "throttle", "total")

    def __init__(self) -> None:
        self.local = Histogram(MICROSECOND_IN_MS)
        self.remote = Histogram(MICROSECOND_IN_MS)
        self.throttle = Histogram(MICROSECOND_IN_MS)
        self.send = Histogram(MICROSECOND_IN_MS)
        self.total = Histogram(MICROSECOND_IN_MS)
        self.request_bytes = Histogram()

    def observe(
        self, request_bytes: int, local_us: int, remote_us: int, send_us: int, throttle_ms: int
    ) -> None:
        """Count a request's size and times."""
        self.request_bytes.observe(request_bytes)
        self.local.observe(local_us)
        self.remote.observe(remote_us)
        self.send.observe(send_us)
        self.throttle.observe(throttle_ms * 1000)
        self.total.observe(local_us + remote_us + send_us)


class TimedRequest(NamedTuple):
    """A request under way that is measured."""

    context: RequestContext
    size_bytes: int
    """Of its body: the bytes behind the header."""
    began_ns: int


class ApiMeter:
    """The counters of one API."""

    __slots__ = (
        "_loop",
        "_seen_ns",
        "_timed_ns",
        "by_version",
        "errors",
        "measured",
        "name",
        "of_consumers",
        "of_followers",
        "sample_every",
        "time_next",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, key: ApiKey) -> None:
        self.name = _camel_case(key.name)
        self.measured = Measured()
        # Those of Fetch are told apart too.
        self.of_consumers = Measured()
        self.of_followers = Measured()
        self.by_version = [0] * (advertised_versions(key)[1] + 1)
        self.sample_every = 1
        """Of how many requests of a hot API about one is timed."""
        self.time_next: Callable[[], None] = lambda: None
        """Has the next request of a hot API timed."""
        self._timed_ns = 0
        self._seen_ns = 0
        self.errors: Counter[int] = Counter()
        self._loop = loop

    @property
    def requests(self) -> dict[int, int]:
        """The number of requests by version; versions without any are left out."""
        return {version: count for version, count in enumerate(self.by_version) if count}

    @property
    def is_used(self) -> bool:
        """Whether there was a request."""
        return any(self.by_version)

    def next_timed(self, now_ns: int) -> int:
        """One is timed now: in how many requests the next one is; twice as many if this one came soon."""
        soon = now_ns - self._timed_ns < TIMED_EVERY_NS
        self._timed_ns = now_ns
        every = self.sample_every
        self.sample_every = min(2 * every, MOST_UNTIMED) if soon else max(every // 2, 1)
        # An odd number: clients that take turns, or send in pairs, fall on every place of it.
        return self.sample_every | 1

    def tick(self) -> None:
        """Have the next request timed if none was since the last call: a load may have ended."""
        if self._timed_ns == self._seen_ns:
            self.sample_every = 1
            self.time_next()
        self._seen_ns = self._timed_ns

    def answered(self, request: TimedRequest, local_ns: int, remote_ns: int, at_ns: int) -> None:
        """Count the size and the times of a request whose answer was made at `at_ns`."""
        self._loop.call_soon(self._sent, request, local_ns // 1000, remote_ns // 1000, at_ns)

    def _sent(self, request: TimedRequest, local_us: int, remote_us: int, at_ns: int) -> None:
        send_us = (time.perf_counter_ns() - at_ns) // 1000
        context, size_bytes, _ = request
        session = context.session
        self.measured.observe(size_bytes, local_us, remote_us, send_us, session.throttle_ms)
        if context.api_key == ApiKey.FETCH:
            measured = self.of_followers if session.is_replica else self.of_consumers
            measured.observe(size_bytes, local_us, remote_us, send_us, session.throttle_ms)


class RequestMeters:
    """The meters of a node, and the errors in the answers to its requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_clients: int = 0) -> None:
        """most_clients: how many clients have series of their own; 0: there are none of clients."""
        self._loop = loop
        self._most_clients = most_clients
        self._by_client: dict[tuple[str, str], int] = {}
        self._meters: dict[int, ApiMeter] = {}
        self._codes = ErrorCodes()
        self.partitions: Partitions | None = None
        """Those of a broker, once they are open; they count refusals and followers' fetches."""

    def meter(self, key: int) -> ApiMeter:
        """The meter of an API."""
        found = self._meters.get(key)
        if found is None:
            found = self._meters[key] = ApiMeter(self._loop, ApiKey(key))
        return found

    def tick(self, _: float) -> None:
        """Called a few times a second."""
        for meter in self._meters.values():
            meter.tick()

    # -- handlers -------------------------------------------------------------------------------------

    def metered_raw(self, key: int, handler: RawHandler[Any]) -> RawHandler[Any]:
        """The handler of a hot API with its meter."""
        meter = self.meter(key)
        by_version, clock, timed = meter.by_version, time.perf_counter_ns, self._timed_reply
        until_timed = 1

        def metered(node: Any, context: RequestContext, body: memoryview) -> Reply | Awaitable[Reply]:
            nonlocal until_timed
            by_version[context[1]] += 1
            until_timed -= 1
            if until_timed:
                return handler(node, context, body)
            began = clock()
            until_timed = meter.next_timed(began)
            request = TimedRequest(context, len(body), began)
            return timed(meter, request, handler(node, context, body))

        def time_next() -> None:
            nonlocal until_timed
            until_timed = 1

        meter.time_next = time_next
        return metered

    def _timed_reply(
        self, meter: ApiMeter, request: TimedRequest, reply: Reply | Awaitable[Reply]
    ) -> Reply | Awaitable[Reply]:
        now_ns = time.perf_counter_ns()
        local_ns = now_ns - request.began_ns
        if reply is None or isinstance(reply, (list, tuple)):
            meter.answered(request, local_ns, 0, now_ns)
            return reply
        if isinstance(reply, asyncio.Future):

            def done(answer: asyncio.Future[Reply]) -> None:
                if not answer.cancelled():
                    answered_ns = time.perf_counter_ns()
                    meter.answered(request, local_ns, answered_ns - now_ns, answered_ns)

            reply.add_done_callback(done)
            return reply
        return self._timed_steps(meter, request, local_ns, reply)  # type: ignore[arg-type]

    async def _timed_steps(
        self, meter: ApiMeter, request: TimedRequest, local_ns: int, answer: Awaitable[Any]
    ) -> Any:
        """Await an answer; the time of its steps is local, the time between them remote."""
        steps = [local_ns * 1e-9]
        response = await MeasuredSteps(answer, steps.append, time.perf_counter)
        now_ns = time.perf_counter_ns()
        passed_ns = now_ns - request.began_ns
        local_ns = min(int(sum(steps) * 1e9), passed_ns)
        meter.answered(request, local_ns, passed_ns - local_ns, now_ns)
        return response

    def metered(self, key: int, handler: Handler[Any]) -> Handler[Any]:
        """The handler of another API with its meter."""
        meter = self.meter(key)
        by_version = meter.by_version

        async def finish(timed: TimedRequest, local_ns: int, answer: Awaitable[Message]) -> Message:
            try:
                response: Message = await self._timed_steps(meter, timed, local_ns, answer)
            except KafkaError as error:
                meter.errors[error.code] += 1
                raise
            meter.errors.update(self._codes.of(response))
            return response

        def metered(node: Any, context: RequestContext, request: Any) -> Message | Awaitable[Message]:
            by_version[context.api_version] += 1
            timed = TimedRequest(context, _size_bytes(context, request), time.perf_counter_ns())
            try:
                response = handler(node, context, request)
            except KafkaError as error:
                meter.errors[error.code] += 1
                raise
            now_ns = time.perf_counter_ns()
            local_ns = now_ns - timed.began_ns
            if inspect.isawaitable(response):
                return finish(timed, local_ns, response)
            meter.answered(timed, local_ns, 0, now_ns)
            meter.errors.update(self._codes.of(response))
            return response

        return metered

    def of_clients(self, handler: Callable[[Any, RequestContext, Any], T]) -> Callable[..., T]:
        """A handler that counts its requests by client too, where that is asked for."""
        if not self._most_clients:
            return handler
        counts, most = self._by_client, self._most_clients

        def counted(node: Any, context: RequestContext, request: Any) -> T:
            client = (context.session.principal, context.client_id or "")
            if client not in counts and len(counts) >= most:
                client = OTHER_CLIENTS
            counts[client] = counts.get(client, 0) + 1
            return handler(node, context, request)

        return counted

    # -- reading --------------------------------------------------------------------------------------

    def read(self) -> Iterator[Family | None]:
        """The families of the requests."""
        shown = [
            each for key, meter in self._meters.items() if meter.is_used for each in self._of(key, meter)
        ]
        requests = [
            ((each.name, version), count) for each in shown for version, count in each.requests.items()
        ]
        yield Family(table.REQUESTS, requests)
        errors = [
            ((each.name, _error_name(code)), count) for each in shown for code, count in each.errors.items()
        ]
        yield Family(table.REQUEST_ERRORS, errors)
        yield Family(table.TOTAL_TIME, _samples(shown, lambda measured: measured.total))
        yield Family(table.QUEUE_TIME, _samples(shown, lambda _: None))
        yield Family(table.LOCAL_TIME, _samples(shown, lambda measured: measured.local))
        yield Family(table.REMOTE_TIME, _samples(shown, lambda measured: measured.remote))
        yield Family(table.THROTTLE_TIME, _samples(shown, lambda measured: measured.throttle))
        yield Family(table.SEND_TIME, _samples(shown, lambda measured: measured.send))
        yield Family(table.REQUEST_BYTES, _samples(shown, lambda measured: measured.request_bytes))
        yield Family(table.CLIENT_REQUESTS, list(self._by_client.items()))

    def _of(self, key: int, meter: ApiMeter) -> Iterator[_Shown]:
        """The series of an API: Fetch has those of consumers and followers beside its own, as in Kafka."""
        errors: Mapping[int, int] = meter.errors
        partitions = self.partitions
        if partitions is not None and key == ApiKey.PRODUCE:
            errors = partitions.refusals.produce
        if partitions is None or key != ApiKey.FETCH:
            yield _Shown(meter.name, meter.requests, dict(errors), meter.measured)
            return
        requests, followers = meter.requests, dict(partitions.follower_fetches)
        consumers = {version: count - followers.get(version, 0) for version, count in requests.items()}
        yield _Shown(meter.name, requests, dict(partitions.refusals.fetch), meter.measured)
        yield _Shown("FetchConsumer", consumers, {}, meter.of_consumers)
        yield _Shown("FetchFollower", followers, {}, meter.of_followers)


class MeteredHandlers:
    """A table of handlers, each with a meter around it."""

    def __init__(self, inner: Handlers[Any], meters: RequestMeters) -> None:
        self._inner = inner
        self._meters = meters
        self.loaded: dict[int, Handler[Any]] = {}
        self.loaded_raw: dict[int, RawHandler[Any]] = {}

    @property
    def apis(self) -> Iterable[ApiKey]:
        """The APIs of the table."""
        return self._inner.apis

    def load(self, key: int) -> None:
        """Import the handler of an API of the table."""
        self._inner.load(key)
        raw = self._inner.loaded_raw.get(key)
        if raw is not None:
            self.loaded_raw[key] = self._meters.of_clients(self._meters.metered_raw(key, raw))
        else:
            metered = self._meters.metered(key, self._inner.loaded[key])
            self.loaded[key] = self._meters.of_clients(metered)

    def handler(self, key: int) -> Handler[Any]:
        """The handler of an API that takes a decoded request."""
        if key not in self.loaded:
            self.load(key)
        return self.loaded[key]


class _Shown(NamedTuple):
    """The series of one name."""

    name: str
    requests: Mapping[int, int]
    """By version."""
    errors: Mapping[int, int]
    """By code."""
    measured: Measured


def _samples(shown: Iterable[_Shown], part: Callable[[Measured], Histogram | None]) -> Iterator[Sample]:
    for each in shown:
        yield (each.name,), Sampled(part(each.measured), sum(each.requests.values()))


def _size_bytes(context: RequestContext, request: Message) -> int:
    """The size of a request's body; one that came in an envelope, or from this node itself, is encoded."""
    found = context.session.request_bytes
    if found:
        return found
    try:
        return sum(map(len, request.encode_parts(context.api_version)))
    except (ValueError, ProtocolError):
        return 0  # what is only handed over within the node may be more than its version can say


def _camel_case(name: str) -> str:
    """INIT_PRODUCER_ID is InitProducerId, the name that Kafka's metrics give the request."""
    return "".join(word.capitalize() for word in name.split("_"))


def _error_name(code: int) -> str:
    """The error's name; a number that none has is UNKNOWN_SERVER_ERROR, as in Kafka."""
    return ErrorCode(code).name
