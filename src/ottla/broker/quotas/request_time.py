"""Request time: the share of this node's event loop that a client may take (`request_percentage`, KIP-124).

What counts is the time for which the one loop is busy with a client's requests, by the wall clock: to read a
header and a request, its handler in all of its steps, to write the answer down. 100 is the loop all of the
time. What does not count: waiting, for replicas, records or the disk of a thread; threads; a waiting fetch's
look at its partitions when others wake it; reading from and writing to the socket. Apache Kafka adds up its
network and request threads instead, so 100 is one of them there.

A request is measured when its answer is made already, so the throttle time that an answer tells is that of
the requests before it: one more passes than in Apache Kafka. It is one window at the most, as there.

Requests of other nodes don't count: those that only brokers send, and fetches of followers. Nor do those that
log a client in, as in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ottla.broker.network.connection import ClientConnection, Dispatch, Reply
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import decode_request_header

if TYPE_CHECKING:
    from ottla.broker.quotas.client_quotas import ClientQuotas

T = TypeVar("T")

#: What only brokers ask each other for.
OF_BROKERS: Final = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)
#: What logs a client in: its user is not known yet.
OF_LOGINS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

#: Counts seconds of the loop for a client.
Record = Callable[[float], None]


class MeasuredDispatch:
    """A dispatcher whose requests count as request time; in use only while some client has such a quota."""

    __slots__ = ("_dispatch", "_now", "_quotas")

    def __init__(
        self, dispatch: Dispatch, quotas: ClientQuotas, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._dispatch = dispatch
        self._quotas = quotas
        self._now = now

    def __call__(self, connection: ClientConnection, frame: memoryview) -> Reply | Awaitable[Reply]:
        """Handle a request; its client is muted first if earlier ones have taken too much."""
        started = self._now()
        session = connection.session
        try:
            header, _ = decode_request_header(frame)
        except ProtocolError:  # no request of Kafka's: whoever handles it says so, or knows it
            return self._dispatch(connection, frame)
        if header.api_key in OF_BROKERS or header.api_key in OF_LOGINS:
            return self._dispatch(connection, frame)
        user, client_id = session.user, header.client_id or ""
        self._quotas.throttle_for_request_time(session, client_id)

        def record(seconds: float) -> None:
            self._quotas.record_request_time(user, client_id, seconds)

        try:
            reply = self._dispatch(connection, frame)
        finally:
            record(self._now() - started)
        if reply is None or isinstance(reply, (list, tuple, asyncio.Future)):
            return reply
        return MeasuredSteps(reply, record, self._now)  # type: ignore[arg-type]


class MeasuredSteps(Generic[T]):
    """An awaitable that counts the time of each of its steps, and not the time between them."""

    __slots__ = ("_awaited", "_now", "_record")

    def __init__(self, awaited: Awaitable[T], record: Record, now: Callable[[], float]) -> None:
        self._awaited = awaited
        self._record = record
        self._now = now

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self._awaited.__await__()
        thrown: BaseException | None = None
        while True:
            started = self._now()
            try:
                waited_for = steps.throw(thrown) if thrown is not None else steps.send(None)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                self._record(self._now() - started)
            thrown = None
            try:
                yield waited_for
            except BaseException as failure:  # a cancellation among others: the awaited one decides
                thrown = failure
