"""All consumer instances of this proxy: made, found, tended, expired, closed.

Theory of operation. One task tends them all, every TEND_SECONDS: it serves the groups of instances without a
read, and ends instances that have had no request for consumer.instance.timeout.ms. Time comes from
`clock`, so `tend` can be called by hand. An instance that ends is unknown at once and leaves its group by a
task of its own; it counts against the limit until it is gone.

Bounds: ottla.consumer.instances live at a time, READS of them read at a time, each read holds at most
consumer.request.max.bytes, all reads together READS_MEMORY times that (librdkafka's own queues come on top of
it, see consumer_settings.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from ottla.client.access import ClusterAccess
from ottla.client.registry.async_client import RegistryClient
from ottla.config.settings import Settings
from ottla.rest.consumers import consumer_errors
from ottla.rest.consumers.consumer_instance import ConsumerInstance, Threads
from ottla.rest.consumers.consumer_settings import (
    MAX_READ_MS,
    DataFormat,
    InstanceSettings,
    client_properties,
)
from ottla.rest.consumers.decoding import RecordDecoder, RecordField, SchemaDecoders
from ottla.rest.consumers.group_consumer import GroupConsumer, ReadBounds, Room
from ottla.rest.daemon_threads import DaemonThreads
from ottla.rest.figures import RestFigures
from ottla.rest.settings import (
    CONSUMER_INSTANCE_TIMEOUT_MS,
    CONSUMER_INSTANCES,
    CONSUMER_REQUEST_MAX_BYTES,
    HOST_NAME,
    INSTANCE_ID,
    RECORD_FIELDS,
)
from ottla.web.callers import ANONYMOUS
from ottla.web.errors import ApiError, ServiceError

log = logging.getLogger("ottla.rest")

TEND_SECONDS: Final = 0.25
READS: Final = 100
"""Reads under way at a time, each on a thread; others wait for a place within their own time."""
REQUEST_THREADS: Final = 16
READS_MEMORY: Final = 4
LEAVE_SECONDS: Final = 10.0
"""How long DELETE waits for an instance to have left its group."""
STOP_SECONDS: Final = 4.0
"""How long `stop` waits for all instances to have left their groups."""


class ConsumerInstances:
    """The consumer instances of a proxy. Methods raise ApiError."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        schemas: RegistryClient,
        clock: Callable[[], float] = time.monotonic,
        figures: RestFigures | None = None,
    ) -> None:
        """figures: those of all proxies of a service; None: its own."""
        self._figures = RestFigures() if figures is None else figures
        self._settings = settings
        self._access = access
        self._clock = clock
        self._decoders = SchemaDecoders(schemas)
        self._decoder_of = {each: RecordDecoder(each, self._decoders) for each in DataFormat}
        self._room = Room(READS_MEMORY * settings[CONSUMER_REQUEST_MAX_BYTES])
        self._threads = Threads(
            DaemonThreads(READS, "consumer-read"),
            asyncio.Semaphore(READS),
            DaemonThreads(REQUEST_THREADS, "consumer-request"),
        )
        self._instances: dict[tuple[str, str], ConsumerInstance] = {}
        self._making = 0
        self._leaving: set[asyncio.Task[None]] = set()
        self._tending: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def host_name(self) -> str | None:
        """The host in URLs of answers; None for the host that the request was sent to."""
        return self._settings[HOST_NAME]

    @property
    def record_fields(self) -> frozenset[RecordField]:
        """The fields that records have in every answer, beside those of Confluent's proxy."""
        return frozenset(RecordField(name) for name in self._settings[RECORD_FIELDS])

    @property
    def any(self) -> bool:
        """Whether there is an instance, or one that leaves its group."""
        return bool(self._instances or self._leaving or self._making)

    @property
    def live(self) -> int:
        """The number of instances that can be asked."""
        return len(self._instances)

    @property
    def leaving(self) -> int:
        """The number of instances that leave their groups."""
        return len(self._leaving)

    @property
    def room(self) -> Room:
        """The memory of all reads."""
        return self._room

    async def start(self) -> None:
        """Begin to tend instances. Raises ServiceError for client settings that librdkafka does not have."""
        wanted = InstanceSettings.parse({}, self._settings)
        try:
            GroupConsumer(self._properties("ottla-rest-settings", wanted), self._room).close()
        except KafkaException as problem:
            raise ServiceError(f"settings of consumer. or client.: {problem.args[0].str()}") from None
        self._tending = asyncio.create_task(self._keep_tending(), name="consumer instances")

    async def failed(self) -> str:
        """Wait for as long as instances are tended; returns the reason for the end."""
        assert self._tending is not None, "start comes before"
        await asyncio.wait([self._tending])
        if self._tending.cancelled():
            return "consumer instances are no longer tended"
        return f"consumer instances are no longer tended: {self._tending.exception()!r}"

    def end_requests(self) -> None:
        """Reads under way end with the records that they have; they count as read once they are answered."""
        for instance in self._instances.values():
            instance.end_reads()

    async def stop(self) -> None:
        """Close all instances; each leaves its group, which takes STOP_SECONDS at most."""
        self._stopped = True
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait([self._tending])
        for instance in list(self._instances.values()):
            self._discard(instance)
        if self._leaving:
            _, late = await asyncio.wait(self._leaving, timeout=STOP_SECONDS)
            if late:
                log.warning("%d consumer instances did not leave their groups in time", len(late))
        self._threads.reads.shutdown(wait=False, cancel_futures=True)
        self._threads.requests.shutdown(wait=False, cancel_futures=True)

    async def create(
        self, group: str, body: Mapping[str, Any], owner: str = ANONYMOUS.principal
    ) -> ConsumerInstance:
        """A new member of `group`, for the requests of this principal.

        Raises ApiError: 40902, 422, 40001, 42204; 503 when there are too many.
        """
        wanted = InstanceSettings.parse(body, self._settings)
        name = wanted.name or self._new_name()
        if (group, name) in self._instances:
            raise _exists()
        limit = self._settings[CONSUMER_INSTANCES]
        if len(self._instances) + len(self._leaving) + self._making >= limit:
            raise ApiError(
                503,
                503,
                f"This proxy has {limit} consumer instances, as many as {CONSUMER_INSTANCES.name} allows: "
                "delete some, or wait until unused ones expire",
            )
        if self._stopped:
            raise ApiError(503, 503, "This proxy is stopping")
        self._making += 1
        try:
            consumer = await asyncio.get_running_loop().run_in_executor(
                self._threads.requests, GroupConsumer, self._properties(group, wanted), self._room
            )
        except KafkaException as problem:
            raise ApiError(422, 42204, f"Invalid consumer configuration: {problem.args[0].str()}") from None
        finally:
            self._making -= 1
        decoder = self._decoder_of[wanted.data_format]
        instance = ConsumerInstance(
            group, name, wanted, consumer, decoder, self._threads, self._clock, self._figures
        )
        instance.owner = owner
        if (group, name) in self._instances or self._stopped:
            self._leave(instance)
            raise _exists()
        self._instances[group, name] = instance
        self._figures.made += 1
        return instance

    def find(self, group: str, name: str) -> ConsumerInstance:
        """The instance of this name. Raises ApiError 40403 when there is none, or not any more."""
        found = self._instances.get((group, name))
        if found is None:
            raise consumer_errors.instance_not_found()
        return found

    async def delete(self, instance: ConsumerInstance) -> None:
        """End an instance and its read under way; returns when the instance has left its group."""
        leaving = self._discard(instance)
        await asyncio.wait([leaving], timeout=LEAVE_SECONDS)

    def bounds(self, instance: ConsumerInstance, timeout_ms: int | None, max_bytes: int | None) -> ReadBounds:
        """The bounds of a read, from its request, its instance's settings and the proxy's."""
        wanted_ms = min(instance.settings.request_timeout_ms, MAX_READ_MS)
        most = self._settings[CONSUMER_REQUEST_MAX_BYTES]
        return ReadBounds(
            timeout_seconds=(wanted_ms if timeout_ms is None else min(timeout_ms, wanted_ms)) / 1000,
            max_bytes=most if max_bytes is None else min(max_bytes, most),
            min_bytes=instance.settings.fetch_min_bytes,
        )

    async def tend(self) -> None:
        """Serve the groups of idle instances; end instances that have expired."""
        timeout = self._settings[CONSUMER_INSTANCE_TIMEOUT_MS] / 1000
        now = self._clock()
        kept: list[ConsumerInstance] = []
        for instance in list(self._instances.values()):
            if not instance.busy and now - instance.last_used >= timeout:
                log.info("consumer instance %s of group %s expired", instance.name, instance.group)
                self._figures.expired += 1
                self._discard(instance)
            else:
                kept.append(instance)
        for outcome in await asyncio.gather(*(each.tend() for each in kept), return_exceptions=True):
            if isinstance(outcome, ApiError):
                log.debug("a consumer could not be tended: %s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

    async def _keep_tending(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            await self.tend()

    def _discard(self, instance: ConsumerInstance) -> asyncio.Task[None]:
        del self._instances[instance.group, instance.name]
        return self._leave(instance)

    def _leave(self, instance: ConsumerInstance) -> asyncio.Task[None]:
        task = asyncio.create_task(instance.close(), name=f"{instance.name} leaves {instance.group}")
        self._leaving.add(task)
        task.add_done_callback(self._left)
        return task

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s: %r", task.get_name(), problem)

    def _properties(self, group: str, wanted: InstanceSettings) -> dict[str, Any]:
        return client_properties(self._settings, self._access, group, wanted)

    def _new_name(self) -> str:
        proxy = self._settings[INSTANCE_ID]
        return f"rest-consumer-{f'{proxy}-' if proxy else ''}{uuid.uuid4()}"


def _exists() -> ApiError:
    return ApiError(
        409,
        consumer_errors.ALREADY_EXISTS,
        "Consumer with specified consumer ID already exists in the specified consumer group.",
    )
