"""Routes a frame to the handler of its API: decodes the header, calls the handler, frames the answer.

A handler is one of two kinds. Most take a decoded request and return (or await) a response message. The two
hot ones, Produce and Fetch, take and give bytes. The handlers, and the node that they are given, come with
the dispatcher's construction.

How long the client is to be throttled (`Session.throttle_ms`) goes into the answer.
"""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.broker.network.connection import CloseConnection, Reply
from ottla.broker.network.context import KnownHeader, RequestContext, Session
from ottla.broker.network.error_answers import error_answer
from ottla.broker.network.replies import frame_reply
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.codec import MAX_ELEMENTS
from ottla.protocol.errors import ErrorCode, KafkaError, TooManyElements
from ottla.protocol.headers import decode_request_header
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.schema import Message

N = TypeVar("N")

CORRELATION_ID_POSITION: Final = 4
_CORRELATION_ID: Final = struct.Struct(">i")
#: Longer headers, those of long client ids, are decoded each time: a connection keeps no large ones.
MOST_KNOWN_BYTES: Final = 256

Handler = Callable[[N, RequestContext, Any], Message | Awaitable[Message]]
RawHandler = Callable[[N, RequestContext, memoryview], Reply | Awaitable[Reply]]


class Handlers(Protocol[N]):
    """The handlers of one kind of listener, loaded as they are asked for."""

    loaded: dict[int, Handler[N]]
    loaded_raw: dict[int, RawHandler[N]]

    @property
    def apis(self) -> Iterable[ApiKey]:
        """The APIs that have a handler."""
        ...

    def load(self, key: int) -> None:
        """Put the handler of an API into `loaded` or `loaded_raw`."""
        ...

    def handler(self, key: int) -> Handler[N]:
        """The handler of an API that takes a decoded request."""
        ...


class HasSession(Protocol):
    """A connection as the dispatcher sees it."""

    @property
    def session(self) -> Session:
        """The client that asks, and its address."""
        ...


class Dispatcher(Generic[N]):
    """Decodes a request's header, finds its handler and frames its answer; one for each kind of listener."""

    def __init__(self, node: N, handlers: Handlers[N]) -> None:
        self._node = node
        self._table = handlers
        self._handlers = handlers.loaded
        self._raw_handlers = handlers.loaded_raw
        self._large_request = asyncio.Lock()
        self._versions = {int(key): advertised_versions(key) for key in handlers.apis}

    def __call__(self, connection: HasSession, frame: memoryview) -> Reply | Awaitable[Reply]:
        """Handle one request. Raises CloseConnection or ProtocolError when there is no way to answer."""
        session = connection.session
        known = session.known_header
        if known is not None and frame[:4] == known.kind and frame[8 : known.end] == known.rest:
            _, _, position, key, version, client_id = known
            (correlation_id,) = _CORRELATION_ID.unpack_from(frame, CORRELATION_ID_POSITION)
            context = RequestContext(key, version, correlation_id, client_id, session)
        else:
            header, position = decode_request_header(frame)
            key, version, correlation_id, client_id = header
            context = RequestContext(key, version, correlation_id, client_id, session)
            served = self._versions.get(key)
            if served is None or not served[0] <= version <= served[1]:
                return self._unsupported(context)
            if position <= MOST_KNOWN_BYTES:
                kind, rest = bytes(frame[:4]), bytes(frame[8:position])
                session.known_header = KnownHeader(kind, rest, position, key, version, client_id)
        raw = self._raw_handlers.get(key)
        if raw is not None:
            return raw(self._node, context, frame[position:])
        if key not in self._handlers:
            self._table.load(key)
            return self(connection, frame)
        session.request_bytes = len(frame) - position
        # Bytes behind a request are passed over, as Kafka does: librdkafka's Metadata v13 has some.
        try:
            request, _ = request_class(key).decode_prefix(frame, version, position)
        except TooManyElements:
            return self._answer_large(context, frame, position)
        return self._respond(context, request)

    def _respond(self, context: RequestContext, request: Message) -> Reply | Awaitable[Reply]:
        try:
            response = self.answer(context, request)
        except KafkaError as error:
            return _framed(context, _error_response(context.api_key, request, error))
        if inspect.isawaitable(response):
            return _finish(context, request, response)
        return _framed(context, response)

    async def _answer_large(self, context: RequestContext, frame: memoryview, position: int) -> Reply:
        """Read a request of up to MAX_ELEMENTS elements in a thread, and answer it; one at a time.

        Such a frame is larger than the receive buffer that connections share, so it has a buffer of its own.
        """
        async with self._large_request:
            request, _ = await asyncio.to_thread(
                request_class(context.api_key).decode_prefix,
                frame,
                context.api_version,
                position,
                MAX_ELEMENTS,
            )
            response = self._respond(context, request)
            return await response if inspect.isawaitable(response) else response

    def answer(self, context: RequestContext, request: Message) -> Message | Awaitable[Message]:
        """The answer to a decoded request. Raises KafkaError."""
        return self._table.handler(context.api_key)(self._node, context, request)

    def _unsupported(self, context: RequestContext) -> Reply | Awaitable[Reply]:
        """KIP-511: an ApiVersions of an unknown version is answered in version 0, anything else hangs up."""
        if context.api_key != ApiKey.API_VERSIONS:
            raise CloseConnection(
                f"API key {context.api_key} version {context.api_version} is not served "
                f"(client id {context.client_id})"
            )
        smallest, largest = advertised_versions(ApiKey.API_VERSIONS)
        own = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=smallest, max_version=largest)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        return frame_reply(ApiKey.API_VERSIONS, 0, context.correlation_id, response)


async def _finish(context: RequestContext, request: Message, response: Awaitable[Message]) -> Reply:
    try:
        answer = await response
    except KafkaError as error:
        answer = _error_response(context.api_key, request, error)
    return _framed(context, answer)


def _framed(context: RequestContext, response: Message) -> Reply:
    throttle_ms = context.session.throttle_ms
    if throttle_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return frame_reply(context.api_key, context.api_version, context.correlation_id, response)


def _error_response(key: int, request: Message, error: KafkaError) -> Message:
    answer = error_answer(key, request, error)
    if answer is None:
        raise CloseConnection(f"{ApiKey(key).name} failed: {error}") from error
    return answer
