"""`ottla mqtt` as a service: its listeners, its parts put together, its end.

The order of an end: no connection is accepted any more; what clients have sent is given its time to be
acknowledged, while they are read no further; they are told that the proxy stops; the producer ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.loopback import is_loopback
from ottla.config.settings import Settings
from ottla.metrics.exposition import Family
from ottla.metrics.health import Check, Verdict
from ottla.mqtt import settings as names
from ottla.mqtt.admission import Admission
from ottla.mqtt.backlog_reading import BacklogReading
from ottla.mqtt.client_connection import CLOSE_SECONDS, Clients, Parts
from ottla.mqtt.copies import Copies
from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.packets import Will
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.figures import MqttFigures
from ottla.mqtt.producing import MOST_UNDER_WAY, MessageWriter
from ottla.mqtt.retained_topic import RetainedTopic
from ottla.mqtt.session_log import SessionLog
from ottla.mqtt.sessions import Sessions
from ottla.mqtt.splicing import CopyLink, Splicer
from ottla.mqtt.storing import MessageStore
from ottla.mqtt.subscribers import Subscribers
from ottla.mqtt.sys_publishing import SysPublishing
from ottla.mqtt.tcp_link import TcpLink
from ottla.web.cross_origin import CrossOrigin
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.hosts import AllowedHosts
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress, Listener
from ottla.web.service_metrics import Observed
from ottla.web.tls_acceptor import TlsAcceptor

CLIENT_ID: Final = "ottla-mqtt"
BACKLOG: Final = 1_024
log = logging.getLogger("ottla.mqtt")

Acceptor = asyncio.Server | TlsAcceptor


class MqttService:
    """Satisfies `SocketService`."""

    name: Final = "mqtt"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for settings of the client that can't be, ConfigError."""
        settings.warn_of_unknown(log)
        self.front = FrontOptions.of(settings)
        self._figures = MqttFigures()
        access = ClusterAccess(
            settings[names.BOOTSTRAP_SERVERS], settings.with_prefix(names.CLIENT_PREFIX), CLIENT_ID
        )
        try:
            access.require_common_properties()
        except ClientOptionError as problem:
            raise ServiceError(f"ottla mqtt: the settings client.*: {problem}") from None
        self._writer = MessageWriter(
            access,
            settings.with_prefix(names.PRODUCER_PREFIX),
            names.key_rule_of(settings),
            settings[names.UNDER_WAY_BYTES],
            self._figures,
        )
        assert self.front.security is not None
        routing = names.routing_of(settings)
        self._subscribers = Subscribers(access, routing.kafka_topics)
        name = settings[names.RETAINED_TOPIC]
        self._retained = (
            RetainedTopic(access, name, settings[names.RETAINED_BYTES], self._figures) if name else None
        )
        interval_s = settings[names.SYS_INTERVAL_SECONDS]
        self._sys = SysPublishing(self._figures, self._subscribers, interval_s) if interval_s else None
        self._backlog = BacklogReading(access)
        self._sessions = Sessions(
            partial(SessionLog, access, settings[names.SESSION_TOPIC], settings[names.SESSION_SHARDS]),
            settings[names.SESSION_EXPIRY_SECONDS],
            self._store_will,
            self._figures,
        )
        self._copies_options = names.CopiesOptions.of(settings)
        self._copies: Copies | None = None
        self._being_a_copy: asyncio.Task[str] | None = None
        others: Splicer | None = None
        if self._copies_options is not None:
            others = Splicer(self._copies_options.password)
            self._copies = Copies(
                access,
                f"{settings[names.SESSION_TOPIC]}-copies",
                self._copies_options.address,
                self._sessions.log,
                self._copies_have_changed,
            )
        self._parts = Parts(
            names.limits_of(settings),
            settings[names.CONNECT_TIMEOUT_MS] / 1_000,
            Admission(self.front.security, routing),
            self._writer,
            Clients(settings[names.CONNECTIONS]),
            self._subscribers,
            MessageStore(self._writer, self._retained, self._figures),
            self._sys,
            self._sessions,
            self._backlog,
            self._figures,
            self._copies,
            others,
        )
        self._acceptors: list[Acceptor] = []

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Running`."""
        return Observed(self._families, [Check("cluster", self._verdict)])

    def _families(self) -> Iterator[Family]:
        yield from self._figures.families()
        if self._retained is not None:
            yield from self._retained.families()

    def _copies_have_changed(self) -> None:
        """Let go of the clients that other copies have now, and look after those of this one."""
        copies, parts = self._copies, self._parts
        assert copies is not None
        parts.clients.end_those(lambda client_id: not copies.has(client_id))
        for shard in range(self._sessions.log.shards):
            if copies.is_mine(shard):
                parts.start("taking sessions over", self._sessions.own(shard))
            else:
                parts.start("giving sessions away", self._sessions.release(shard))

    def _store_will(self, client_id: str, will: Will, done: Callable[[], None]) -> None:
        """See `StoreWill`. One that the cluster did not take in time is kept."""
        kafka_topic = self._parts.admission.routing.kafka_topic(will.topic)
        if kafka_topic is None:  # the routes have changed since
            log.warning("a will has no route any more: %.200s", will.topic)
            done()
            return

        def report(reason: ReasonCode, text: str) -> None:
            self._figures.messages[will.qos, reason.name if reason.is_failure else "stored"] += 1
            if reason.is_failure:
                log.warning("a will is not stored: %s", text)
            if reason is not ReasonCode.SERVER_BUSY:
                done()

        self._figures.wills += 1
        self._parts.store.store(kafka_topic, Message.of(will), client_id, report)

    def _verdict(self) -> Verdict:
        """Whether the cluster takes what clients send."""
        figures = self._figures
        if self._writer.is_full:
            return Verdict(False, f"{figures.under_way} messages wait for the cluster, of {MOST_UNDER_WAY}")
        return Verdict(True, f"{figures.under_way} messages wait for the cluster")

    async def start(self, address: HttpAddress) -> None:
        """Make the producer. The cluster need not be there yet. Raises ServiceError."""
        await self._writer.start()
        if self._sys is not None:
            self._parts.start("$SYS", self._sys.run())
        if self._retained is not None:
            self._parts.start("retained messages", self._retained.run())
            await self._retained.begun()
        self._sessions.start(is_alone=self._copies is None)
        options = self._copies_options
        if options is not None:
            listen, loop = options.listen, asyncio.get_running_loop()
            try:
                made = await loop.create_server(
                    lambda: CopyLink(self._parts, options.password), listen.host, listen.port, backlog=BACKLOG
                )
            except OSError as problem:
                raise ServiceError(
                    f"ottla mqtt: can't listen for other copies at {listen.host}:{listen.port}: {problem}"
                ) from None
            self._acceptors.append(made)
            assert self._copies is not None, "there are options"
            self._being_a_copy = asyncio.create_task(self._copies.run(), name="being one of the copies")
            await self._copies.begun()

    async def listen(self, listeners: Sequence[Listener]) -> None:
        """See `Listening`."""
        loop = asyncio.get_running_loop()
        for bound, address, context in listeners:
            make = self._maker(address)
            if context is None:
                made: Acceptor = await loop.create_server(make, sock=bound, backlog=BACKLOG)
            else:
                made = TlsAcceptor(bound, make, context, BACKLOG)
            self._acceptors.append(made)

    def _maker(self, address: HttpAddress) -> Callable[[], asyncio.Protocol]:
        if address.scheme not in names.WEB_SOCKETS:
            return lambda: TcpLink(self._parts)
        # a library that other listeners do not need
        from ottla.mqtt.websocket_link import HandshakeRules, WebSocketLink

        on_loopback = is_loopback(address.host) or address.host == "localhost"
        hosts = AllowedHosts.of(self.front.hosts, (), loopback=on_loopback)
        rules = HandshakeRules(hosts, CrossOrigin(self.front))
        return lambda: WebSocketLink(self._parts, rules)

    async def failed(self) -> str:
        """See `Running`."""
        parts = [
            asyncio.create_task(self._writer.failed(), name="writing"),
            asyncio.create_task(self._subscribers.failed(), name="reading"),
        ]
        if self._being_a_copy is not None:
            parts.append(self._being_a_copy)
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in parts:
                each.cancel()

    async def ended(self) -> str:
        """See `Listening`: that happens with the service's end alone."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def end_requests(self) -> None:
        """Accept no more."""
        for each in self._acceptors:
            each.close()

    async def drain(self) -> None:
        """Give what is under way its time, and end the clients' connections."""
        clients = self._parts.clients
        clients.read_no_further()
        await self._writer.drain()
        clients.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS + 1):
                await clients.gone()

    async def stop(self) -> None:
        """See `Running`."""
        for task in list(self._parts.tasks):
            task.cancel()
        await asyncio.gather(*self._parts.tasks, return_exceptions=True)
        await self._sessions.stop()
        if self._retained is not None:
            await self._retained.stop()
        if self._being_a_copy is not None:
            self._being_a_copy.cancel()
            await asyncio.gather(self._being_a_copy, return_exceptions=True)
        if self._copies is not None:
            await self._copies.close()
        await self._backlog.stop()
        await self._subscribers.stop()
        await self._writer.stop()
