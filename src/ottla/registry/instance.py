"""One running instance of the registry: its image, its part in the group, and long work beside its turns."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.registry import settings as names
from ottla.registry.core.configuration import Config
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.reading import Reads
from ottla.registry.core.records import noop
from ottla.registry.core.writing import Writes
from ottla.registry.forwarding import HEADERS, forwarded
from ottla.registry.key_store import KeyStore
from ottla.registry.loss import way_out
from ottla.registry.membership import Identity, RegistryGroup
from ottla.registry.registry import Gone, State
from ottla.registry.work_ahead import WorkAhead
from ottla.registry.workbench import TURN_STEPS, PutOff, Workbench
from ottla.registry.write_failures import STORE_ERROR, TIMEOUT, told_as_answers
from ottla.replicated.background import BackgroundTasks
from ottla.replicated.decision import Decision
from ottla.replicated.errors import StateError, Unstored
from ottla.replicated.forwarding import Forwarder
from ottla.replicated.group_member import GroupMember, GroupTimes
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.metrics_source import StateParts
from ottla.replicated.place import Place
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.primary import Primary
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic import OtherTopic, ReplicatedTopic
from ottla.web.errors import ApiError, ServiceError

T = TypeVar("T")

THREADS_AHEAD: Final = 2
"""For work that turns put off; work that comes while all are busy waits, and ends with its client too."""


class RegistryInstance:
    """Satisfies `Registry`. Started once, stopped once."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        identity: Identity,
        peer_tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """peer_tls: of connections to other instances, if they have TLS."""
        self.settings = settings
        self.image = RegistryImage()
        self.workbench = Workbench(TURN_STEPS)
        self.reads = Reads(
            self.image,
            default_config(settings),
            validate_defaults=settings[names.VALIDATE_NEW_SCHEMAS] or settings[names.VALIDATE_DEFAULTS],
            workbench=self.workbench,
        )
        self.writes = Writes(self.image, self.reads, settings[names.MODE_MUTABILITY])
        self.kafka_cluster_id = ""
        self._timeout_ms: int = settings[names.TIMEOUT_MS]
        self._topic_name = settings[names.TOPIC]
        group_id = settings[names.GROUP_ID]
        self._topic = ReplicatedTopic(
            access,
            self._topic_spec(),
            self._replay,
            f"{group_id}-{self._topic_name}-primary",
            self._timeout_ms,
        )
        self._leadership = Leadership(group_id)
        self._primary = Primary(self._topic, self._leadership)
        times = GroupTimes(
            settings[names.SESSION_TIMEOUT_MS],
            settings[names.HEARTBEAT_INTERVAL_MS],
            settings[names.REBALANCE_TIMEOUT_MS],
        )
        group = RegistryGroup(identity, self._leadership)
        member_access = access.with_client_id(f"{access.client_id}-{identity.port}")
        self._member = GroupMember(member_access, group_id, group, times)
        self._forwarder = Forwarder(self._topic, self._leadership, HEADERS, self._timeout_ms, peer_tls)
        self.keys = KeyStore(settings, access, self._leadership, peer_tls)
        # Its own threads: those of the loop store the writes of others.
        self._ahead = ThreadPoolExecutor(THREADS_AHEAD, "registry-ahead")
        self._tasks = BackgroundTasks()
        self._is_ready = False
        self.work_ahead = WorkAhead()

    def _topic_spec(self) -> TopicSpec:
        return TopicSpec(
            self._topic_name,
            "schemas",
            self._way_out,
            replication_factor=self.settings[names.TOPIC_REPLICATION_FACTOR],
            end_mark=noop(),
        )

    def _replay(self, record: ReplayedRecord) -> None:
        self.image.replay(record.key, record.value, record.timestamp_ms)

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when the topic was read to its end. Raises ServiceError."""
        try:
            self.kafka_cluster_id = await self._topic.prepare()
            self._tasks.start("registry topic", self._topic.read())
            self._tasks.start("registry election", self._member.run())
            await self._tasks.unless_ended(self._catch_up())
            self._is_ready = True
        except StateError as problem:
            raise ServiceError(str(problem)) from None

    async def _catch_up(self) -> None:
        limit_ms = self.settings[names.INIT_TIMEOUT_MS]
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._primary.catch_up()
        except TimeoutError:
            raise ServiceError(
                f"topic {self._topic_name} was not read to its end within {limit_ms} ms "
                "(kafkastore.init.timeout.ms)"
            ) from None
        except (Unstored, TopicLost) as problem:
            raise ServiceError(f"topic {self._topic_name}: {problem}") from None

    async def failed(self) -> str:
        """Wait until a topic can't be read or the group can't be joined any more; says why."""
        ends = [asyncio.ensure_future(end) for end in (self._tasks.ended(), self.keys.failed())]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for end in ends:
                end.cancel()

    async def stop(self) -> None:
        """Leave the group and the cluster."""
        await self.keys.stop()
        await self._forwarder.close()
        self._ahead.shutdown(wait=False, cancel_futures=True)
        await self._tasks.stop()
        await self._topic.close()
        await self._member.close()

    # -- turns ----------------------------------------------------------------------------------------

    async def consider(self, query: Callable[[], T], gone: Gone | None = None) -> T:
        """See `Registry`."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await self._topic.consider(self._in_turn(query))
                    except PutOff as put_off:
                        await self._do_ahead(put_off, gone)
        except TimeoutError:
            message = f"The schema could not be parsed and compared within {self._timeout_ms} ms"
            raise ApiError(500, TIMEOUT, message) from None

    async def write(self, decide: Callable[[], Decision[T]], gone: Gone | None = None) -> T:
        """See `Registry`."""
        self.require_topic()
        with told_as_answers(self._timeout_ms, "schema", self._way_out):
            async with asyncio.timeout(self._timeout_ms / 1000):
                while True:
                    try:
                        return await self._primary.write(self._in_turn(decide))
                    except PutOff as put_off:
                        await self._do_ahead(put_off, gone)

    def _in_turn(self, query: Callable[[], T]) -> Callable[[], T]:
        """The query with a whole allowance of steps. Raises PutOff, and the errors of the query."""

        def taken() -> T:
            self.workbench.begin_turn()
            return query()

        return taken

    async def _do_ahead(self, put_off: PutOff, gone: Gone | None) -> None:
        """Do the work that a turn has put off; it ends soon after its request or its client does."""
        with self.work_ahead.counted():
            await self._ahead_of_turn(put_off, gone)

    async def _ahead_of_turn(self, put_off: PutOff, gone: Gone | None) -> None:
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

    # -- writes on another instance's way to the primary ------------------------------------------------

    @property
    def is_primary(self) -> bool:
        """See `Registry`."""
        return self._leadership.is_here

    @property
    def place(self) -> Place:
        """See `Registry`."""
        return self._topic.place

    async def forward(self, request: Request) -> Response:
        """See `Registry`."""
        with told_as_answers(self._timeout_ms, "schema", self._way_out):
            try:
                return await forwarded(request, self._forwarder, self.settings[names.MAX_SCHEMA_BYTES])
            except OtherTopic:
                message = "The primary has stored the write in another topic of this name"
                raise ApiError(500, STORE_ERROR, message) from None

    # -- the topic's loss -------------------------------------------------------------------------------

    def require_topic(self) -> None:
        """See `Registry`."""
        with told_as_answers(self._timeout_ms, "schema", self._way_out):
            self._topic.require()

    def _way_out(self, loss: Loss) -> str:
        return way_out(self._topic_name, loss)

    # -- figures ----------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the topic was replayed to the end that it had at the start."""
        return self._is_ready

    @property
    def topic(self) -> ReplicatedTopic:
        """The topic of schemas."""
        return self._topic

    @property
    def states(self) -> list[StateParts]:
        """The states of this instance: schemas, and keys once they were asked for."""
        schemas = StateParts(self._topic, self._primary, self._forwarder)
        keys = self.keys.parts
        return [schemas] if keys is None else [schemas, keys]

    @property
    def leadership(self) -> Leadership:
        """Which instance is the primary."""
        return self._leadership

    @property
    def member(self) -> GroupMember:
        """This instance in its group."""
        return self._member

    @property
    def state(self) -> State:
        """See `Registry`."""
        loss = self._topic.loss
        return State(
            problem=None if loss is None else self._way_out(loss),
            primary=self._leadership.url,
        )


def default_config(settings: Settings) -> Config:
    """The configuration in force where neither a subject, nor its context, nor the registry has one."""
    level = settings[names.COMPATIBILITY_LEVEL]
    former = settings[names.AVRO_COMPATIBILITY_LEVEL]
    if former is not None and not settings.is_given(names.COMPATIBILITY_LEVEL.name):
        level = former
    return Config(compatibility_level=level, validate_fields=settings[names.VALIDATE_FIELDS] or None)


async def _stays() -> None:
    """Never ends: for a caller that cannot hang up."""
    await asyncio.Event().wait()
