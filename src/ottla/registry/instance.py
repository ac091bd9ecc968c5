"""One running instance of the registry: the image that follows the topic, and its part in the election."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.registry import settings as names
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.reading import Reads
from ottla.registry.core.writing import Decision, Writes
from ottla.registry.election import Election, ElectionTimes
from ottla.registry.forwarding import Forwarder
from ottla.registry.loss import Loss, TopicLost, way_out
from ottla.registry.membership import Identity
from ottla.registry.preparing import prepare
from ottla.registry.registry import Gone, Place, State
from ottla.registry.topic import SchemasTopic
from ottla.registry.workbench import TURN_STEPS, PutOff, Workbench
from ottla.registry.writer import Fenced, TooLarge, Unstored
from ottla.web.errors import ApiError, ServiceError

T = TypeVar("T")

STORE_ERROR = 50001
TIMEOUT = 50002
NOT_PRIMARY = 50004
TOO_LARGE = 42209

THREADS_AHEAD: Final = 2
"""For work that turns put off; what comes while all are busy waits, and ends with its client too."""


class RegistryInstance:
    """Satisfies `Registry`. Started once, stopped once."""

    def __init__(self, settings: Settings, access: ClusterAccess, identity: Identity) -> None:
        self.settings = settings
        self.image = RegistryImage()
        self.workbench = Workbench(TURN_STEPS)
        self.reads = Reads(
            self.image,
            settings[names.COMPATIBILITY_LEVEL],
            validate_defaults=settings[names.VALIDATE_DEFAULTS],
            workbench=self.workbench,
        )
        self.writes = Writes(self.image, self.reads, settings[names.MODE_MUTABILITY])
        self.kafka_cluster_id = ""
        self._access = access
        group_id, topic = settings[names.GROUP_ID], settings[names.TOPIC]
        self._topic = SchemasTopic(
            access, topic, f"{group_id}-{topic}-primary", settings[names.TIMEOUT_MS], self.image.replay
        )
        self._election = Election(
            access,
            group_id,
            identity,
            ElectionTimes(settings[names.SESSION_TIMEOUT_MS], settings[names.HEARTBEAT_INTERVAL_MS]),
            self._primary_changed,
        )
        self._forwarder = Forwarder(settings[names.MAX_SCHEMA_BYTES], settings[names.TIMEOUT_MS])
        self._primary: Identity | None = None
        self._primary_known = asyncio.Event()
        self._writing = asyncio.Lock()
        # Its own threads: those of the loop store what others write.
        self._ahead = ThreadPoolExecutor(THREADS_AHEAD, "registry-ahead")
        self._tasks: list[asyncio.Task[None]] = []

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when the topic was read to its end. Raises ServiceError."""
        self.kafka_cluster_id, found = await prepare(
            self._access, self.settings[names.TOPIC], self.settings[names.TOPIC_REPLICATION_FACTOR]
        )
        self._tasks = [
            asyncio.create_task(self._topic.read(found), name="registry topic"),
            asyncio.create_task(self._election.run(), name="registry election"),
        ]
        starting = asyncio.create_task(self._catch_up())
        await asyncio.wait([starting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            raise ServiceError(await self.failed())
        starting.result()

    async def _catch_up(self) -> None:
        """The primary's NOOP comes after all records of others, and so does one of any other instance."""
        limit_ms = self.settings[names.INIT_TIMEOUT_MS]
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._primary_known.wait()
                if self.is_primary:
                    async with self._writing:
                        await self._topic.take_over()
                else:
                    await self._topic.read_to_end()
        except TimeoutError:
            raise ServiceError(
                f"topic {self.settings[names.TOPIC]} was not read to its end within {limit_ms} ms "
                "(kafkastore.init.timeout.ms)"
            ) from None
        except (Unstored, TopicLost) as problem:
            raise ServiceError(f"topic {self.settings[names.TOPIC]}: {problem}") from None
        except Fenced:
            await self._topic.read_to_end()  # another has become the primary meanwhile

    async def failed(self) -> str:
        """Wait until the topic can't be read or the group can't be joined any more; says why."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        task = next(iter(done))
        problem = task.exception() if not task.cancelled() else None
        return f"{task.get_name()}: {problem or 'ended'}"

    async def stop(self) -> None:
        """Leave the group and the cluster."""
        await self._forwarder.close()
        self._ahead.shutdown(wait=False, cancel_futures=True)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._election.close()

    def _primary_changed(self, primary: Identity | None) -> None:
        self._primary = primary
        self._primary_known.set()

    async def consider(self, query: Callable[[], T], gone: Gone | None = None) -> T:
        """See `Registry`."""
        limit_ms = self.settings[names.TIMEOUT_MS]
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await self._turn(query)
                    except PutOff as put_off:
                        await self._do_ahead(put_off, gone)
        except TimeoutError:
            message = f"The schema could not be parsed and compared within {limit_ms} ms"
            raise ApiError(500, TIMEOUT, message) from None

    async def _turn(self, query: Callable[[], T]) -> T:
        """Raises PutOff, and what the query raises."""

        def taken() -> T:
            self.workbench.begin_turn()
            return query()

        async with self._topic.standstill:
            return await asyncio.to_thread(taken)

    async def _do_ahead(self, put_off: PutOff, gone: Gone | None) -> None:
        """Do what a turn has put off; it ends soon after whoever waits for it is cancelled, or gone."""
        abandoned = threading.Event()
        loop = asyncio.get_running_loop()
        doing: asyncio.Future[None] = loop.run_in_executor(self._ahead, put_off.work, abandoned)
        leaving: asyncio.Future[None] = asyncio.ensure_future((gone or _stays)())
        try:
            await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise ApiError(400, 400, "The client went away before its answer was there")
            doing.result()
        finally:
            abandoned.set()
            doing.cancel()
            leaving.cancel()

    # -- writes ---------------------------------------------------------------------------------------

    @property
    def is_primary(self) -> bool:
        """Whether writes are decided here."""
        return self._election.is_primary

    async def write(self, decide: Callable[[], Decision[T]], gone: Gone | None = None) -> T:
        """See `Registry`."""
        limit_ms = self.settings[names.TIMEOUT_MS]
        self.require_topic()
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await self._write_in_turn(decide)
                    except PutOff as put_off:
                        await self._do_ahead(put_off, gone)
        except TimeoutError:
            raise ApiError(500, TIMEOUT, f"The write was not stored within {limit_ms} ms") from None
        except Fenced:
            raise ApiError(500, NOT_PRIMARY, "Another instance has become the primary") from None
        except TopicLost as lost:
            raise self._lost(lost.loss) from None
        except TooLarge:
            raise ApiError(422, TOO_LARGE, "The schema is larger than a record of the topic may be") from None
        except Unstored as problem:
            raise ApiError(500, STORE_ERROR, f"The write may not have been stored: {problem}") from None

    async def _write_in_turn(self, decide: Callable[[], Decision[T]]) -> T:
        """Raises PutOff before anything is stored."""
        async with self._writing:
            try:
                return await self._write(decide)
            except Fenced:
                # Nothing was stored. If this is the primary again (or still, as far as the group says), what
                # others wrote meanwhile is read first, and the decision made anew.
                return await self._write(decide)

    async def _write(self, decide: Callable[[], Decision[T]]) -> T:
        if not self.is_primary:
            raise ApiError(500, NOT_PRIMARY, "This instance is not the primary")
        if not self._topic.writable:
            await self._topic.take_over()
        decision = await self._turn(decide)
        if decision.records:
            await self._topic.append(decision.records)
        return decision.answer

    # -- writes on another instance's way to the primary ------------------------------------------------

    async def forward(self, request: Request) -> Response:
        """The primary's answer; it is given when this instance has read what the primary wrote."""
        self.require_topic()
        answer, place = await self._forwarder.forward(request, lambda: self._primary, lambda: self.is_primary)
        if place is not None:
            await self._wait(place)
        return answer

    async def _wait(self, written: Place) -> None:
        if written.topic_id != self.place.topic_id:
            raise ApiError(500, STORE_ERROR, "The primary has stored the write in another topic of this name")
        try:
            async with asyncio.timeout(self.settings[names.TIMEOUT_MS] / 1000):
                await self._topic.wait_until_applied(written.offset)
        except (TimeoutError, TopicLost):
            return  # it was stored: that this instance reads late is no reason to say otherwise

    @property
    def place(self) -> Place:
        """See `Registry`."""
        return Place(self._topic.topic_id, self._topic.applied_offset)

    # -- the topic's loss -------------------------------------------------------------------------------

    def require_topic(self) -> None:
        """See `Registry`."""
        if self._topic.loss is not None:
            raise self._lost(self._topic.loss)

    def _lost(self, loss: Loss) -> ApiError:
        return ApiError(500, STORE_ERROR, way_out(self.settings[names.TOPIC], loss))

    @property
    def state(self) -> State:
        """See `Registry`."""
        loss = self._topic.loss
        return State(
            problem=None if loss is None else way_out(self.settings[names.TOPIC], loss),
            primary=None if self._primary is None else self._primary.url,
        )


async def _stays() -> None:
    """For whoever asks and cannot hang up: never ends."""
    await asyncio.Event().wait()
