"""Produces records for both APIs, and reports the delivery of each.

Theory of operation. One librdkafka producer serves all requests. Its delivery reports are taken on the event
loop, by a poll of no length every POLL_SECONDS while records are under way: measured, that is faster than a
thread that polls (0.70 to 0.51 million records a second), which fights the loop for the interpreter at every
report. A report is a method call that notes partition and offset; the last of a request's wakes its waiter.

Waiting records are bounded by MAX_IN_FLIGHT and by librdkafka's own queue, which both make `send` wait; bytes
of requests by `work`. A record is acknowledged or given up within api.v3.produce.response.timeout.ms, which
is librdkafka's delivery.timeout.ms too, so no failure is reported that becomes a success later.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.client.access import ClusterAccess
from ottla.client.audit.producer import AuditedProducer
from ottla.client.registry.async_client import RegistryClient
from ottla.config.settings import Settings
from ottla.rest import kafka_errors
from ottla.rest.daemon_threads import DaemonThreads
from ottla.rest.figures import ApiVersion, RestFigures
from ottla.rest.records.bytes_in_work import BytesInWork
from ottla.rest.settings import AUDIT_TIER, MAX_BODY_BYTES, PRODUCER_PREFIX, RESPONSE_TIMEOUT_MS
from ottla.tracing.trace_context import current_context, trace_headers, with_trace
from ottla.web.errors import ApiError, ServiceError

log = logging.getLogger("ottla.rest")
clients_log = logging.getLogger("ottla.client.rest")

T = TypeVar("T")

POLL_SECONDS: Final = 0.001
IDLE_POLL_SECONDS: Final = 0.5
MAX_IN_FLIGHT: Final = 50_000
SLICE: Final = 1_000
"""Records that are given to the producer between two checks of the number under way."""
METADATA_SECONDS: Final = 10.0
KNOWN_TOPIC_SECONDS: Final = 30.0
KNOWN_TOPICS: Final = 10_000
CREATION_PAUSES: Final = (0.0, 0.1, 0.3)
"""Pauses before asking again for a topic that the cluster may be creating on demand."""
END_SECONDS: Final = 2.0
"""How long records under way may take once the proxy is about to stop. Those that are left are answered as
failed, before the front cuts requests off."""
STOP_SECONDS: Final = 2.0
LINGER_MS: Final = 2
WORK_BYTES: Final = 128 << 20
"""The bytes of bodies of requests; parsed, encoded and under way they take some five times that."""

_DEFAULTS: Final[dict[str, Any]] = {
    "partitioner": "murmur2_random",  # the same partitions for keys as Java's clients
    "acks": "all",
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 128 << 10,
}
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Outgoing(NamedTuple):
    """A record to produce. `partition` -1 lets the producer choose, `timestamp` 0 (ms) is now."""

    key: bytes | None
    value: bytes | None
    partition: int = -1
    timestamp: int = 0
    headers: list[tuple[str, str | bytes | None]] | None = None


def _traced(records: Sequence[Outgoing]) -> Sequence[Outgoing]:
    """The records with the context of the request under way, if it is traced."""
    context = current_context()
    if context is None:
        return records
    added = trace_headers(context)
    return [record._replace(headers=with_trace(record.headers, added)) for record in records]


class Deliveries:
    """The delivery of the records of one `send`, by their places there.

    Where `failures` has no entry, the record is at `offsets` of `partitions`, with `timestamps` (ms).
    """

    __slots__ = ("_left", "_reported", "_waiter", "failures", "offsets", "partitions", "timestamps")

    def __init__(self, count: int, reported: Callable[[int, int], None] | None = None) -> None:
        """reported: is called once all are reported, with the numbers of delivered and failed records."""
        self.partitions = [-1] * count
        self.offsets = [-1] * count
        self.timestamps = [-1] * count
        self.failures: dict[int, KafkaError] = {}
        self._left = count
        self._reported = reported
        self._waiter: asyncio.Future[None] | None = None

    def reported(self, place: int, error: KafkaError | None, message: Message | None) -> None:
        """Note a delivery report, or the error that kept a record from being sent."""
        if error is not None:
            self.failures[place] = error
        elif message is not None:
            self.partitions[place] = message.partition()  # type: ignore[assignment]  # never None here
            self.offsets[place] = message.offset()  # type: ignore[assignment]  # never None here
            self.timestamps[place] = message.timestamp()[1]
        self._left -= 1
        if self._left:
            return
        if self._reported is not None:
            self._reported(len(self.offsets) - len(self.failures), len(self.failures))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until all records are reported. One waiter at a time."""
        if self._left:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class EndsSoon(Protocol):
    """A request that goes on for as long as its client likes."""

    def end_soon(self) -> None:
        """End within moments, with a right answer."""


class OpenStreams:
    """The streams of records under way, to be ended when the proxy stops."""

    def __init__(self) -> None:
        self._open: set[EndsSoon] = set()
        self._ending = False

    @property
    def count(self) -> int:
        """The number of open streams."""
        return len(self._open)

    @contextmanager
    def entered(self, stream: EndsSoon) -> Iterator[None]:
        """The stream is open for the length of the block."""
        self._open.add(stream)
        if self._ending:
            stream.end_soon()
        try:
            yield
        finally:
            self._open.discard(stream)

    def end(self) -> None:
        """End all streams soon, and those to come."""
        self._ending = True
        for stream in self._open:
            stream.end_soon()


class Producing:
    """The producer of a proxy, and the metadata of topics that both APIs need."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        schemas: RegistryClient,
        figures: RestFigures | None = None,
    ) -> None:
        """figures: those of all proxies of a service; None: its own."""
        self.figures = RestFigures() if figures is None else figures
        self.schemas = schemas
        self.max_body_bytes = settings[MAX_BODY_BYTES]
        self._audit_tier = settings[AUDIT_TIER]
        self.work = BytesInWork(max(WORK_BYTES, 2 * self.max_body_bytes))
        self._send_seconds = settings[RESPONSE_TIMEOUT_MS] / 1_000
        given = {**access.properties, **settings.with_prefix(PRODUCER_PREFIX)}
        self._properties = access.librdkafka({**_DEFAULTS, **given})
        if "message.timeout.ms" not in given:
            self._properties.setdefault("delivery.timeout.ms", settings[RESPONSE_TIMEOUT_MS])
        if "linger.ms" not in given:
            # librdkafka refuses to linger for as long as a record may take
            self._properties["linger.ms"] = min(LINGER_MS, settings[RESPONSE_TIMEOUT_MS] / 2)
        self._may_be_idempotent = "enable.idempotence" not in given
        self._producer: Producer | None = None
        self._threads = DaemonThreads(2, "rest-metadata")
        self._topics: dict[str, tuple[float, int]] = {}
        self._cluster_id: str | None = None
        self._line = asyncio.Lock()
        self._freed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._polls_soon = False
        self._fatal = False
        self._ending: asyncio.Task[None] | None = None
        self._problem: asyncio.Future[str] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self.streams = OpenStreams()

    async def start(self) -> None:
        """Make the producer; the cluster need not be there. Raises ServiceError for impossible settings."""
        self._problem = asyncio.get_running_loop().create_future()
        self._producer = self._new_producer()
        self._poll_in(IDLE_POLL_SECONDS)

    async def failed(self) -> str:
        """Wait for as long as delivery reports are taken; returns the reason for the end."""
        assert self._problem is not None, "started"
        return await asyncio.shield(self._problem)

    def end_requests(self) -> None:
        """End streams of records soon, and fail the records that are still under way after END_SECONDS."""
        self.streams.end()
        self._giving_up = asyncio.get_running_loop().call_later(END_SECONDS, self._purge)

    def _purge(self) -> None:
        if self._producer is not None and len(self._producer):
            self._producer.purge()
            self._poll_soon()

    async def stop(self) -> None:
        """Wait for records under way, for STOP_SECONDS at most; then give them up."""
        if self._giving_up is not None:
            self._giving_up.cancel()
        producer = self._producer
        if producer is not None:
            until = time.monotonic() + STOP_SECONDS
            while len(producer) and time.monotonic() < until:
                self._take_reports(producer)
                await asyncio.sleep(POLL_SECONDS)
            if self._timer is not None:
                self._timer.cancel()
            self._producer = None
            endings = [asyncio.ensure_future(self._give_up(producer))]
            if self._ending is not None:
                endings.append(self._ending)
            await asyncio.wait(endings, timeout=STOP_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def cluster_id(self) -> str:
        """The cluster's id. Raises ApiError when no broker answers."""
        if self._cluster_id is None:
            self._cluster_id = await self._metadata(lambda: self._running().cluster_id(METADATA_SECONDS))
        if self._cluster_id is None:
            raise kafka_errors.unreachable("The cluster did not answer in time.")
        return self._cluster_id

    async def partitions(self, topic: str, at_least: int = 1) -> int | None:
        """The number of a topic's partitions, None for no topic. Asks again for fewer than `at_least`.

        A cluster that creates topics on demand is given a moment for it. Raises ApiError.
        """
        known = self._topics.get(topic)
        if known is not None and known[0] > time.monotonic() and known[1] >= at_least:
            return known[1]
        if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
            return None
        for pause in CREATION_PAUSES:
            await asyncio.sleep(pause)
            count = await self._metadata(lambda: self._ask_for_topic(topic))
            if count:
                if len(self._topics) >= KNOWN_TOPICS:
                    self._topics.clear()
                self._topics[topic] = (time.monotonic() + KNOWN_TOPIC_SECONDS, count)
                return count
        return None

    async def send(
        self, topic: str, records: Sequence[Outgoing], api: ApiVersion = ApiVersion.V3
    ) -> Deliveries:
        """Give records to the producer, in order, waiting for room; `Deliveries.wait` waits for the reports.

        Never raises for a record: an error that keeps it from being sent is its failure. Records of a traced
        request carry its context in their headers. api: that of the request, for the figures.
        """
        records = _traced(records)
        deliveries = Deliveries(len(records), partial(self.figures.delivered, api))
        reported = deliveries.reported
        until = time.monotonic() + self._send_seconds
        for start in range(0, len(records), SLICE):
            if start:
                await asyncio.sleep(0)  # let other tasks run
            await self._room(until)
            produce = self._running().produce
            for place, record in enumerate(records[start : start + SLICE], start):
                key, value, partition, timestamp, headers = record
                report = partial(reported, place)
                try:
                    produce(topic, value, key, partition, report, None, timestamp, headers)
                except BufferError:
                    await self._send_when_room(topic, record, report, until)
                    produce = self._running().produce
                except KafkaException as problem:
                    reported(place, problem.args[0], None)
            self._poll_soon()
        return deliveries

    def forget_topic(self, topic: str) -> None:
        """Ask for a topic's partitions anew: it may have been deleted."""
        self._topics.pop(topic, None)

    async def _send_when_room(
        self, topic: str, record: Outgoing, report: Callable[..., None], until: float
    ) -> None:
        """Send a record for which the queue was full: wait for deliveries and try again, until this time."""
        key, value, partition, timestamp, headers = record
        while True:
            self._freed.clear()
            self._poll_soon()
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await self._freed.wait()
                self._running().produce(topic, value, key, partition, report, None, timestamp, headers)
                return
            except BufferError:
                continue
            except TimeoutError:
                report(KafkaError(KafkaError._QUEUE_FULL, "The producer's queue was full for too long"), None)
                return
            except KafkaException as problem:
                report(problem.args[0], None)
                return

    async def _room(self, until: float) -> None:
        """Wait in line while too many records are under way, until this time at most."""
        if not self._line.locked() and len(self._running()) < MAX_IN_FLIGHT:
            return
        try:
            async with asyncio.timeout(until - time.monotonic()), self._line:
                while len(self._running()) >= MAX_IN_FLIGHT:
                    self._freed.clear()
                    self._poll_soon()
                    await self._freed.wait()
        except TimeoutError:
            return  # librdkafka's own bound refuses the rest, record by record

    def _running(self) -> Producer:
        if self._producer is None:
            raise ApiError(503, 50301, "The proxy is stopping")
        return self._producer

    def _new_producer(self) -> Producer:
        """A producer, idempotent unless the user's settings rule that out, as with Java's."""
        try:
            if self._may_be_idempotent:
                with suppress(KafkaException):
                    return self._make({**self._properties, "enable.idempotence": True})
            producer = self._make(self._properties)
            if self._may_be_idempotent:
                log.warning("the producer is not idempotent: its settings rule that out")
                self._may_be_idempotent = False
            return producer
        except (KafkaException, TypeError, ValueError) as problem:
            text = problem.args[0].str() if isinstance(problem, KafkaException) else str(problem)
            raise ServiceError(f"ottla rest: the producer's settings: {text}") from None

    def _make(self, properties: dict[str, Any]) -> Producer:
        given = {**properties, "error_cb": self._complain}
        if self._audit_tier is not None:
            return AuditedProducer(given, tier=self._audit_tier, logger=clients_log)
        return Producer(given, logger=clients_log)

    def _complain(self, error: KafkaError) -> None:
        """Log an error that librdkafka reports. A fatal one ends this producer: the poll makes another."""
        clients_log.warning("the producer: %s", error.str())  # one kind with the lines of its library
        self._fatal |= error.fatal()

    def _take_reports(self, producer: Producer) -> bool:
        """Take the delivery reports that are there; whether there were any.

        confluent-kafka raises a fatal error here, though others go to the callback of errors.
        """
        try:
            return bool(producer.poll(0))
        except KafkaException as problem:
            error = problem.args[0]
            if not error.fatal():
                raise
            self._complain(error)
            if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED and self._may_be_idempotent:
                log.warning("the producer is not idempotent: the cluster does not allow its user that")
                self._may_be_idempotent = False
            return True

    @property
    def waiting(self) -> int:
        """The records that the producer has and that are not reported yet."""
        return 0 if self._producer is None else len(self._producer)

    def _replace(self, ended: Producer) -> None:
        """Replace a producer that had a fatal error: it sends nothing more, and its records fail."""
        self._fatal = False
        self.figures.producers_replaced += 1
        self._producer = self._new_producer()
        self._ending = asyncio.create_task(self._give_up(ended), name="a producer's end")
        self._freed.set()

    async def _give_up(self, producer: Producer) -> None:
        """Fail a producer's records and end it, in a thread, as that waits for the producer's own threads."""
        producer.purge()
        until = time.monotonic() + STOP_SECONDS
        while len(producer) and time.monotonic() < until:
            self._take_reports(producer)
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.get_running_loop().run_in_executor(self._threads, producer.close)

    def _poll_soon(self) -> None:
        if not self._polls_soon:
            if self._timer is not None:
                self._timer.cancel()
            self._poll_in(POLL_SECONDS)

    def _poll_in(self, seconds: float) -> None:
        self._polls_soon = seconds == POLL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(seconds, self._poll)

    def _poll(self) -> None:
        producer = self._producer
        if producer is None:
            return
        try:
            if self._take_reports(producer):
                self._freed.set()
            if self._ending is not None and self._ending.done():
                self._ending.result()
                self._ending = None
            if self._fatal and self._ending is None:
                self._replace(producer)
        except Exception as problem:
            log.exception("delivery reports can't be taken")
            if self._problem is not None and not self._problem.done():
                self._problem.set_result(f"the producer: {problem}")
            return
        self._poll_in(POLL_SECONDS if len(self._running()) else IDLE_POLL_SECONDS)

    def _ask_for_topic(self, topic: str) -> int | None:
        found = self._running().list_topics(topic, METADATA_SECONDS).topics.get(topic)
        if found is None:
            return None
        if found.error is not None and found.error.code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ):
            raise KafkaException(found.error)
        return len(found.partitions)

    async def _metadata(self, ask: Callable[[], T]) -> T:
        """The cluster's answer to a blocking call, made in a thread. Raises ApiError."""
        try:
            async with asyncio.timeout(METADATA_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except TimeoutError:
            raise kafka_errors.unreachable("The cluster did not answer in time.") from None
        except KafkaException as problem:
            raise kafka_errors.of_kafka_error(problem.args[0]) from None
