"""One server: the state that the commands have made, its part in the group, and, on the primary, the queries.

The order of a statement that changes something: its topics are made; the command is stored; every server
replays it; then the primary's host is told. A kill between two of these leaves a topic without a stream, or a
query that starts with the next host: never a query without its command.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.config.settings import Settings
from ottla.replicated.background import BackgroundTasks
from ottla.replicated.decision import Decision
from ottla.replicated.errors import Fenced, NotPrimary, StateError, TooLarge, Unstored
from ottla.replicated.forwarding import Forwarder, ForwardingHeaders
from ottla.replicated.group_member import GroupMember, GroupTimes
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.metrics_source import StateParts
from ottla.replicated.place import Place
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.primary import Primary
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic
from ottla.sql.commands.command import Command, end_mark
from ottla.sql.commands.membership import ServerGroup
from ottla.sql.commands.state import PersistentQuery, SqlState
from ottla.sql.functions.loading import user_functions
from ottla.sql.functions.registry import Functions
from ottla.sql.running.messages import Configure
from ottla.sql.running.queries import Queries
from ottla.sql.running.wishes import Backoff, QueryLife
from ottla.sql.server import settings as names
from ottla.sql.server.topics import Topics
from ottla.web.errors import ApiError, ServiceError

T = TypeVar("T")

FORWARDING: Final = ForwardingHeaders(forwarded="x-ottla-sql-forwarded", place="x-ottla-sql-place")
NOT_STORED: Final = 50300
START_SECONDS: Final = 60.0
KAFKA_SECONDS: Final = 5.0

log = logging.getLogger("ottla.sql")


class SqlNode:
    """Started once, stopped once."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        url: str,
        peer_tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """url: where the other servers reach this one. Raises UserError for functions that can't be had."""
        self.settings = settings
        self.access = access
        self.url = url
        self.state = SqlState()
        self.functions: Functions = user_functions(settings[names.FUNCTIONS])
        self.service_id: str = settings[names.SERVICE_ID]
        self.cluster = KafkaCluster(access.bootstrap, dict(access.properties), "ottla-sql")
        self.topics = Topics(self.cluster, settings[names.OUTPUT_PREFIX])
        self.kafka_cluster_id = ""
        self.processing_log = _processing_log(settings)
        self._timeout_seconds: float = settings[names.COMMAND_TIMEOUT_MS] / 1000
        spec = TopicSpec(
            f"_ottla-sql-{self.service_id}-commands",
            "commands",
            self._way_out,
            replication_factor=settings[names.INTERNAL_REPLICAS],
            end_mark=end_mark(),
        )
        group_id = f"_ottla-sql-{self.service_id}"
        self._topic = ReplicatedTopic(
            access, spec, self._replay, f"{group_id}-primary", settings[names.COMMAND_TIMEOUT_MS]
        )
        self.leadership = Leadership(group_id)
        self.primary = Primary(self._topic, self.leadership)
        self.group = ServerGroup(url, self.leadership)
        times = GroupTimes(settings[names.SESSION_TIMEOUT_MS], settings[names.HEARTBEAT_INTERVAL_MS], None)
        self.member = GroupMember(access.with_client_id(f"ottla-sql-{url}"), group_id, self.group, times)
        self.forwarder = Forwarder(
            self._topic, self.leadership, FORWARDING, settings[names.COMMAND_TIMEOUT_MS], peer_tls
        )
        backoff = Backoff(settings[names.RETRY_FIRST_MS] / 1000, settings[names.RETRY_LONGEST_MS] / 1000)
        self.queries = Queries(self.service_id, self._configure(), backoff, warm=settings[names.WARM])
        self._tasks = BackgroundTasks()
        self._replayed = asyncio.Event()
        """Set, and replaced, with each command that is replayed."""
        self._beside: dict[str, PersistentQuery] = {}
        self.is_ready = False
        self.on_state: list[Callable[[SqlState], None]] = []
        """Are told each state, once it is there."""

    @property
    def state_directory(self) -> Path:
        """The directory of this service's state."""
        return Path(self.settings[names.STATE_DIRECTORY]) / self.service_id

    @property
    def view_directory(self) -> Path:
        """The directory of this server's own copies of tables."""
        port = self.url.rpartition(":")[2]
        return self.state_directory / f"server-{port}"

    def run_beside(self, query: PersistentQuery) -> None:
        """Run a query that no command has made, until it is stopped or the server ends."""
        self._beside[query.id] = query
        self._tell_state()

    def stop_beside(self, query_id: str) -> None:
        """End such a query."""
        self._beside.pop(query_id, None)
        self._tell_state()

    @property
    def registry_url(self) -> str | None:
        """The Schema Registry, None without one."""
        return self.settings[names.REGISTRY_URL]

    @property
    def registry(self) -> Mapping[str, str]:
        """Settings of the Schema Registry's client, empty without a registry."""
        found: dict[str, str] = {}
        if (url := self.registry_url) is not None:
            found["schema.registry.url"] = url
        if (user_info := self.settings[names.REGISTRY_USER_INFO]) is not None:
            found["basic.auth.user.info"] = user_info.value
        return found

    @property
    def default_properties(self) -> Mapping[str, str]:
        """The properties of statements that give no others: the server's, then those of ALTER SYSTEM."""
        return {"auto.offset.reset": self.settings[names.AUTO_OFFSET_RESET], **self.state.properties}

    @property
    def states(self) -> Sequence[StateParts]:
        """The replicated states, for their metrics."""
        return (StateParts(self._topic, self.primary, self.forwarder),)

    @property
    def lives(self) -> Mapping[str, QueryLife]:
        """How each query that runs here is."""
        return self.queries.lives

    def _configure(self) -> Configure:
        settings = self.settings
        return Configure(
            bootstrap=self.access.bootstrap,
            client=dict(self.access.properties),
            registry=self.registry,
            state=str(self.state_directory.absolute()),
            master=settings[names.SPARK_MASTER],
            driver_memory=settings[names.DRIVER_MEMORY],
            partitions=settings[names.PARTITIONS],
            batch_records=settings[names.BATCH_RECORDS],
            spark=settings.with_prefix(names.SPARK_PREFIX),
            functions=settings[names.FUNCTIONS],
            processing_log=self.processing_log,
        )

    def _replay(self, record: ReplayedRecord) -> None:
        before = self.state
        self.state = before.replayed(record.key, record.value)
        if self.state.problem is not None and before.problem is None:
            log.error("the topic of commands can't be read further: %s", self.state.problem)
        replayed, self._replayed = self._replayed, asyncio.Event()
        replayed.set()
        if self.is_ready and self.state is not before:
            self._tell_state()

    def _tell_state(self) -> None:
        self.queries.want({**self.state.queries, **self._beside})
        for each in self.on_state:
            each(self.state)

    def _way_out(self, loss: Loss) -> str:
        return (
            f"the topic of commands is {loss.value}: streams and tables stay as they are in this process, "
            "and no statement is taken. Stop all servers; the next start begins with what the topic has then."
        )

    # -- life -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when all commands were replayed. Raises ServiceError."""
        try:
            self.kafka_cluster_id = await self._topic.prepare()
            if self.processing_log is not None:
                await asyncio.to_thread(self._make_processing_log, self.processing_log)
            self._tasks.start("commands", self._topic.read())
            self._tasks.start("election", self.member.run())
            await self._tasks.unless_ended(self._catch_up())
        except StateError as problem:
            raise ServiceError(f"ottla sql server: {problem}") from None
        self.is_ready = True
        self._tell_state()
        self._tasks.start("queries", self.queries.run())
        self._tasks.start("leading", self._lead())

    def _make_processing_log(self, topic: str) -> None:
        self.cluster.ensure_topics([Topic(topic, 1, 1, {})])

    async def _catch_up(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                await self.primary.catch_up()
        except TimeoutError:
            raise ServiceError(
                f"ottla sql server: the commands were not read within {START_SECONDS:.0f} s"
            ) from None
        except (Unstored, TopicLost) as problem:
            raise ServiceError(f"ottla sql server: the topic of commands: {problem}") from None

    async def _lead(self) -> None:
        """Run the queries while this server is the primary, and has read what the one before wrote."""
        leads = False
        while True:
            is_here = self.leadership.is_here
            if is_here and not leads:
                try:
                    await self.primary.catch_up()
                except (Unstored, TopicLost, Fenced) as problem:
                    log.warning("this server can't lead yet: %s", problem)
                    is_here = False
            if is_here is not leads:
                leads = is_here
                log.info("this server %s the queries", "runs" if leads else "does not run")
                self.queries.lead(leads)
            await asyncio.sleep(0.1)

    def keep_running(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run this until the node stops; its end is the node's failure."""
        self._tasks.start(name, work)

    async def failed(self) -> str:
        """Wait until the server can't go on; says why."""
        return await self._tasks.ended()

    async def stop(self) -> None:
        """Leave the group and the cluster; the queries stop with their host."""
        self.queries.lead(False)
        await self._tasks.stop()
        await self.forwarder.close()
        await self._topic.close()
        await self.member.close()

    async def kafka_answers(self) -> bool:
        """Whether the cluster answers now."""
        return await asyncio.to_thread(self.cluster.answers, KAFKA_SECONDS)

    async def until_at(self, number: int, timeout_seconds: float) -> None:
        """Wait until this command was replayed here, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self.state.number < number:
                    changed = self._replayed
                    await changed.wait()

    # -- statements -----------------------------------------------------------------------------------

    @property
    def is_primary(self) -> bool:
        """Whether statements are carried out here."""
        return self.leadership.is_here

    @property
    def place(self) -> Place:
        """How far this server has read which topic."""
        return self._topic.place

    async def carry_out(self, decide: Callable[[SqlState], Command]) -> Command:
        """Store the command that `decide` gives, and return when it was replayed here.

        Raises what `decide` raises, and ApiError where it can't be stored.
        """

        def decision() -> Decision[Command]:
            if self.state.problem is not None:
                raise ApiError(503, NOT_STORED, f"No statements are taken: {self.state.problem}")
            command = decide(self.state)
            return Decision((command.record(),), command)

        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self.primary.write(decision)
        except TimeoutError:
            raise ApiError(
                503,
                NOT_STORED,
                f"The statement was not stored within {self._timeout_seconds:.0f} s; it may still be",
            ) from None
        except (Fenced, NotPrimary):
            raise ApiError(503, NOT_STORED, "Another server has become the primary: try again") from None
        except TooLarge:
            raise ApiError(413, NOT_STORED, "The statement is too large for the topic of commands") from None
        except (Unstored, TopicLost) as problem:
            raise ApiError(503, NOT_STORED, f"The statement could not be stored: {problem}") from None


def _processing_log(settings: Settings) -> str | None:
    if not settings[names.PROCESSING_LOG]:
        return None
    given: str | None = settings[names.PROCESSING_LOG_TOPIC]
    return given or f"{settings[names.SERVICE_ID]}ksql_processing_log"
