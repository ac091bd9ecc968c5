"""The keys of encrypted fields at one instance: a state in a topic of its own, opened when first asked for.

The topic is made and read by the first request about keys; registries without such keys have none. Its
primary is the registry's, which fences and replays it as the topic of schemas (replicated/topic.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.encryption.key_services import SECRET_VARIABLE, KeyServices
from ottla.registry import settings as names
from ottla.registry.core.keys.image import KeyImage
from ottla.registry.core.keys.reading import KeyReads
from ottla.registry.core.keys.writing import KeyWrites
from ottla.registry.forwarding import HEADERS, forwarded
from ottla.registry.loss import way_out_of_keys
from ottla.registry.write_failures import STORE_ERROR, TIMEOUT, told_as_answers
from ottla.replicated.background import BackgroundTasks
from ottla.replicated.decision import Decision
from ottla.replicated.errors import StateError, Unstored
from ottla.replicated.forwarding import Forwarder
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.metrics_source import StateParts
from ottla.replicated.place import Place
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.primary import Primary
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic import OtherTopic, ReplicatedTopic
from ottla.web.errors import ApiError

T = TypeVar("T")
log = logging.getLogger("ottla.registry")

THING: Final = "key"


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts of the state once its topic is read."""

    image: KeyImage
    reads: KeyReads
    writes: KeyWrites
    topic: ReplicatedTopic
    primary: Primary
    forwarder: Forwarder
    tasks: BackgroundTasks

    async def close(self) -> None:
        await self.forwarder.close()
        await self.tasks.stop()
        await self.topic.close()


class KeyStore:
    """Satisfies `Keys`. Stopped once; `open` comes before every other call but `failed` and `stop`."""

    def __init__(
        self,
        settings: Settings,
        access: ClusterAccess,
        leadership: Leadership,
        peer_tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._settings = settings
        self._access = access
        self._leadership = leadership
        self._peer_tls = peer_tls
        self._topic_name: str = settings[names.KEYS_TOPIC]
        self._timeout_ms: int = settings[names.TIMEOUT_MS]
        self.limit: Final[int] = settings[names.MAX_KEYS]
        """The most KEKs, and the most versions of DEKs."""
        secret = settings[names.LOCAL_SECRET]
        self._services = KeyServices(os.environ.get(SECRET_VARIABLE) if secret is None else secret.value)
        self._opening: asyncio.Task[_Opened] | None = None
        self._opened: _Opened | None = None
        self._is_open = asyncio.Event()

    # -- life -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """See `Keys`. One attempt serves all requests that wait for it; the next request begins another."""
        if self._opened is not None:
            return
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="registry keys")
            # Its failure is told to those who wait, and in the log where nobody does any more.
            self._opening.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        attempt = self._opening
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await asyncio.shield(attempt)
        except TimeoutError:
            raise ApiError(500, TIMEOUT, f"Topic {self._topic_name} is still being read") from None
        except (StateError, TopicLost, Unstored) as problem:
            raise ApiError(500, STORE_ERROR, str(problem)) from None

    async def _open(self) -> _Opened:
        """Make the topic or find it, and read it to its end. Raises StateError, TopicLost, Unstored."""
        opened = self._parts()
        try:
            await opened.topic.prepare()
            opened.tasks.start("registry's keys", opened.topic.read())
            limit_ms = self._settings[names.INIT_TIMEOUT_MS]
            async with asyncio.timeout(limit_ms / 1000):
                await opened.tasks.unless_ended(opened.primary.catch_up())
        except BaseException as problem:
            self._opening = None
            await opened.close()
            if isinstance(problem, TimeoutError):
                reason = f"topic {self._topic_name} was not read to its end (kafkastore.init.timeout.ms)"
                raise StateError(reason) from None
            if not isinstance(problem, asyncio.CancelledError):
                log.warning("the topic of keys can't be opened: %s", problem)
            raise
        self._opened = opened
        self._is_open.set()
        return opened

    def _parts(self) -> _Opened:
        image = KeyImage()

        def replay(record: ReplayedRecord) -> None:
            image.replay(record.key, record.value, record.timestamp_ms)

        spec = TopicSpec(
            self._topic_name,
            "keys",
            self._way_out,
            replication_factor=self._settings[names.TOPIC_REPLICATION_FACTOR],
        )
        writers_id = f"{self._settings[names.GROUP_ID]}-{self._topic_name}-primary"
        topic = ReplicatedTopic(self._access, spec, replay, writers_id, self._timeout_ms)
        reads = KeyReads(image, self._services)
        return _Opened(
            image,
            reads,
            KeyWrites(image, reads, self._services, self.limit),
            topic,
            Primary(topic, self._leadership),
            Forwarder(topic, self._leadership, HEADERS, self._timeout_ms, self._peer_tls),
            BackgroundTasks(),
        )

    async def failed(self) -> str:
        """Wait until the topic was opened and can't be read any more; says why."""
        await self._is_open.wait()
        return await self._now.tasks.ended()

    async def stop(self) -> None:
        """Leave the cluster."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._opened is not None:
            await self._opened.close()

    @property
    def _now(self) -> _Opened:
        assert self._opened is not None, "open comes first"
        return self._opened

    # -- figures ----------------------------------------------------------------------------------------

    @property
    def parts(self) -> StateParts | None:
        """The parts that metrics are read from; None until the topic was opened."""
        opened = self._opened
        return None if opened is None else StateParts(opened.topic, opened.primary, opened.forwarder)

    @property
    def image(self) -> KeyImage | None:
        """The keys; None until the topic was opened."""
        return None if self._opened is None else self._opened.image

    # -- the state --------------------------------------------------------------------------------------

    @property
    def reads(self) -> KeyReads:
        """See `Keys`."""
        return self._now.reads

    @property
    def writes(self) -> KeyWrites:
        """See `Keys`."""
        return self._now.writes

    @property
    def is_primary(self) -> bool:
        """See `Keys`."""
        return self._leadership.is_here

    @property
    def place(self) -> Place:
        """See `Keys`."""
        return self._now.topic.place

    def require_topic(self) -> None:
        """See `Keys`."""
        with self._told():
            self._now.topic.require()

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        """See `Keys`."""
        self.require_topic()
        with self._told():
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._now.primary.write(decide)

    async def forward(self, request: Request) -> Response:
        """See `Keys`."""
        with self._told():
            try:
                return await forwarded(request, self._now.forwarder, self._settings[names.MAX_SCHEMA_BYTES])
            except OtherTopic:
                message = "The primary has stored the write in another topic of this name"
                raise ApiError(500, STORE_ERROR, message) from None

    def _told(self) -> AbstractContextManager[None]:
        return told_as_answers(self._timeout_ms, THING, self._way_out)

    def _way_out(self, loss: Loss) -> str:
        return way_out_of_keys(self._topic_name, loss)
