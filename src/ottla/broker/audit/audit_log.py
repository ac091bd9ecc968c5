"""This node's part of the audit log: takes events, and writes them to its chain in one background task.

Nothing waits for the log but the answer to an administrative request: it goes out once its records are
committed, or after `PATIENCE_SECONDS`, and at once while the log can't be written. So an acknowledged change
is in the log, or the log is known to be in trouble: the broker goes on then, because a cluster that can't be
administered can't be repaired. What waits is bounded (core/audit/pending_events.py); what finds no room is
counted, and the counts are written when the log can be written again. After a kill the chain's next record
tells that the run ended without saying so.

After `stop` no request changes the metadata through this node: it answers that it is not the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.broker.audit.audit_partition import AuditPartition
from ottla.broker.audit.chain_writer import MOST_RECORDS, ChainWriter, TooLarge
from ottla.broker.config import AUDIT_LOG_KEY_FILE
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.system_randomness import SystemRandomness
from ottla.config.errors import ConfigError
from ottla.core.audit.changes import shortened
from ottla.core.audit.pending_events import PendingEvents
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import KafkaError, ProtocolError
from ottla.security.audit_chain import (
    AUTHENTICATION,
    AUTHORIZATION,
    DENIED,
    FAILURE,
    SUCCESS,
    AuditEvent,
    UnusableKey,
    signing_key,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.audit.node import AuditNode
    from ottla.broker.network.context import RequestContext, Session
    from ottla.core.security.acls import AclOperation, ResourceType

log = logging.getLogger("ottla.broker")

PATIENCE_SECONDS: Final = 2.0
"""The longest wait of an administrative request for its records."""
END_SECONDS: Final = 2.0
LAST_END_SECONDS: Final = 1.0
"""The longest waits of a stop for the log."""
STEP_SECONDS: Final = 90.0
"""One attempt to write; a request to another broker has shorter limits of its own."""
LOOK_SECONDS: Final = 0.2
"""How often counts are looked at whose second may be over."""
FIRST_RETRY_SECONDS: Final = 0.05
LAST_RETRY_SECONDS: Final = 1.0
MAX_KEY_FILE_BYTES: Final = 65_536

_PASSES = (KafkaError, ProtocolError, PeerUnreachable, StorageError, OSError, TimeoutError)


class AuditLog:
    """See the module's text. Used on the event loop only. It is the `SecurityEvents` of its node."""

    def __init__(self, node: AuditNode) -> None:
        self._node = node
        self._pending = PendingEvents()
        self._chain: ChainWriter | None = None
        self._key: bytes | None = None
        self._work = asyncio.Event()
        # (ticket, waiter) of requests that wait for their records, in order of the tickets.
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_late = False
        self._trouble: str | None = None
        self._look_at = 0.0
        self._ends = False
        self._ended = asyncio.Event()
        self.stopped = False
        """Whether no more administrative changes are to be made here."""

    def read_key(self) -> None:
        """Read the key of the settings. Raises ConfigError."""
        name = self._node.config[AUDIT_LOG_KEY_FILE]
        if name is None:
            return
        try:
            with open(name, "rb") as file:
                self._key = signing_key(file.read(MAX_KEY_FILE_BYTES))
        except OSError as problem:
            raise ConfigError(f"{AUDIT_LOG_KEY_FILE.name}: {problem.strerror}: {name}") from None
        except UnusableKey as problem:
            raise ConfigError(f"{AUDIT_LOG_KEY_FILE.name}: {problem}: {name}") from None

    def start(self) -> None:
        """Begin to write; events that came before are among them."""
        node = self._node
        run = SystemRandomness().new_id().hex
        chain = ChainWriter(AuditPartition(node), node.node_id, run, node.log_directory.path, node.now_ms)
        chain.key = self._key
        self._chain = chain
        self._task = node.supervisor.spawn("audit-log", self._run(chain))

    async def write_end(self) -> None:
        """The node begins to stop: write what waits and that the run ends, while the log surely has a leader.

        Events that still come are recorded as before.
        """
        await self._until_ended(END_SECONDS)

    async def stop(self) -> None:
        """Write what has come since `write_end`, and that the run ends."""
        self.stopped = True
        if self._pending.untold:
            await self._until_ended(LAST_END_SECONDS)

    async def _until_ended(self, seconds: float) -> None:
        self._ends, ended = True, self._ended
        ended.clear()
        self._work.set()
        if self._task is not None and not self._task.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), seconds)

    def close(self) -> None:
        """The node ends: keep the number of events that are not written, for the next run to tell."""
        count = self._pending.untold
        if count and self._chain is not None:
            log.error("the node ends before all of its audit events are written count=%d", count)
            self._chain.keep_untold(count)

    # -- events ---------------------------------------------------------------------------------------

    def authenticated(self, session: Session, mechanism: str) -> None:
        """A client has proved its principal, which is the session's now."""
        self._count(
            AuditEvent(
                AUTHENTICATION,
                SUCCESS,
                principal=shortened(session.principal),
                host=session.client_host,
                listener=session.listener_name,
                details=(("mechanism", mechanism), ("token", session.token_authenticated)),
            )
        )

    def authentication_failed(self, session: Session, mechanism: str | None, reason: str) -> None:
        """A client has not."""
        self._count(
            AuditEvent(
                AUTHENTICATION,
                FAILURE,
                host=session.client_host,
                listener=session.listener_name,
                details=(
                    ("mechanism", None if mechanism is None else shortened(mechanism)),
                    ("reason", shortened(reason)),
                ),
            )
        )

    def refused(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> None:
        """The sender of a request may not do the operation on the resource."""
        event = AuditEvent(
            AUTHORIZATION,
            DENIED,
            api=ApiKey(context.api_key).name,
            operation=operation.name,
            resource_type=resource_type.name,
            resource_name=shortened(name),
        )
        self._count(self._of_sender(context, event))

    async def administered(self, context: RequestContext, events: Iterable[AuditEvent]) -> None:
        """Record the changes of a request; returns when they are committed, or see the module's text."""
        deadline = self._node.loop.time() + PATIENCE_SECONDS
        has_any = False
        for event in events:
            has_any = True
            if not self._pending.has_room:
                await self._until_taken(deadline)
            self.add(context, event)
        # The node's own requests may be what the log itself waits for.
        if has_any and not context.session.of_this_node:
            await self._until_taken(deadline)

    def add(self, context: RequestContext, event: AuditEvent) -> None:
        """Record one change of a request, without a wait."""
        if not self._pending.add(self._of_sender(context, event), self._node.now_ms()):
            self._node.server.flood_log.warn(
                "audit events lost", f"audit events are lost, {len(self._pending)} wait to be written"
            )
        self._work.set()

    def _count(self, event: AuditEvent) -> None:
        if self._pending.count(event, self._node.now_ms()):
            self._work.set()

    def _of_sender(self, context: RequestContext, event: AuditEvent) -> AuditEvent:
        session = context.session
        own = f"Node:{self._node.node_id}" if session.of_this_node else session.principal
        client_id = context.client_id
        return replace(
            event,
            principal=shortened(own),
            host=session.client_host,
            listener=session.listener_name or None,
            client_id=None if client_id is None else shortened(client_id),
        )

    async def _until_taken(self, deadline: float) -> None:
        """Wait until what is queued now is committed; not while the log is late already."""
        if self._is_late or self._task is None or self._task.done():
            return
        waiter = self._node.loop.create_future()
        self._waiting.append((self._pending.last_ticket, waiter))
        self._work.set()
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            self._is_late = True
            self._node.server.flood_log.warn(
                "audit log late", "administrative changes are answered before the audit log has them"
            )

    # -- the background task ------------------------------------------------------------------------------

    async def _run(self, chain: ChainWriter) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        is_told = False
        while True:
            try:
                async with asyncio.timeout(STEP_SECONDS):
                    count = await self._write(chain)
            except _PASSES as problem:
                self._tell_trouble(problem)
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(2 * retry_seconds, LAST_RETRY_SECONDS)
                continue
            retry_seconds = FIRST_RETRY_SECONDS
            self._took(count)
            is_told = is_told and not count
            if not chain.is_idle or len(self._pending):
                continue
            self._tell_end_of_trouble()
            if self._end_windows():
                continue
            if not self._ends:
                await self._until_work()
            elif not is_told:
                chain.finish()
                is_told = True
            else:
                self._ends = is_told = False
                self._ended.set()

    def _end_windows(self) -> bool:
        """Queue counts whose second is over; returns whether there are any."""
        now = self._node.loop.time()
        if not self._ends and now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        return self._pending.end_windows(self._node.now_ms(), all_of_them=self._ends)

    async def _write(self, chain: ChainWriter) -> int:
        try:
            return await chain.write(self._pending.first(MOST_RECORDS))
        except TooLarge as problem:
            log.error("an audit event is lost, its record is too large for the topic: %s", problem)
            self._pending.drop(1)
            self._pending.lose(1, self._node.now_ms())
            return 0

    def _took(self, count: int) -> None:
        self._pending.drop(count)
        if count:
            self._is_late = False
        while self._waiting and self._pending.is_taken(self._waiting[0][0]):
            _, waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def _until_work(self) -> None:
        self._work.clear()
        wait_seconds = LOOK_SECONDS if self._pending.counting else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._work.wait(), wait_seconds)

    def _tell_trouble(self, problem: BaseException) -> None:
        self._is_late = True
        text = f"{type(problem).__name__}: {problem}"
        if self._trouble != text:
            self._trouble = text
            log.warning("the audit log can't be written now waiting=%d reason=%s", len(self._pending), text)

    def _tell_end_of_trouble(self) -> None:
        if self._trouble is not None:
            self._trouble = None
            self._is_late = False
            log.info("the audit log is written again")
