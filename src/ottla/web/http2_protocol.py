"""HTTP/2 of clients that begin with it (RFC 9113, 3.3), as ksqlDB's do: each stream is a request.

h2 knows frames, headers and windows; here are the requests, and bounds. A body is taken no faster than the
application reads it, as the window of its stream opens by what was read. An answer waits for the client's
window and for the socket. A client that resets streams faster than they are answered is sent away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from starlette.types import ASGIApp

STREAMS: Final = 100
"""The most streams of a connection at once."""
HEAD_BYTES: Final = 64 * 1024
FRAME_BYTES: Final = 1 << 16
"""More than a frame may have. h2 waits for the end of larger ones, as it does for the end of headers."""
RESETS: Final = 200
"""The most streams that a client may reset while it takes no answer to its end."""
SILENT_SECONDS: Final = 300.0
"""The longest time without a byte from the client while it owes some, or takes none of an answer."""
LOOK_SECONDS: Final = 5.0

_OF_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
"""Headers of HTTP/1.1 that say nothing of the answer (RFC 9113, 8.2.2)."""

Message = MutableMapping[str, Any]
log = logging.getLogger("ottla.web")


@dataclass(slots=True)
class Stream:
    """A request. body: what has come and was not read, with the bytes that each part takes of the window.

    is_whole: no more comes of the body; is_read: the application knows that. is_gone: the client has reset
    it, or the connection is lost.
    """

    number: int
    is_head: bool = False
    body: deque[tuple[bytes, int]] = field(default_factory=deque)
    is_whole: bool = False
    is_read: bool = False
    is_gone: bool = False
    is_answered: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Place:
    """What the requests of a connection have in common. state: of their scopes."""

    app: ASGIApp
    scheme: str
    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    state: dict[str, Any]
    has_no_place: Callable[[], bool]
    tasks: set[asyncio.Task[None]]
    connections: set[Any]
    ended: Callable[[], None]


class Http2Protocol(asyncio.Protocol):
    """One connection, from its preface on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self._h2 = h2.connection.H2Connection(config)
        self._streams: dict[int, Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._resets = 0
        self._bytes_since_event = 0
        self._stops = False
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._place.connections.add(self)
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_BYTES,
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._h2.initiate_connection()
        self._flush()
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_at_silence)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._place.connections.discard(self)
        self._place.ended()
        for stream in self._streams.values():
            stream.is_gone = True
            stream.news.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        """The client takes nothing: it is not heard either, as what it says (pings) would be answered."""
        self._may_write.clear()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._may_write.set()
        self._heard_at = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def shutdown(self) -> None:
        """Take no further requests, as uvicorn asks; the connection ends with its last answer."""
        self._stops = True
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self._h2.close_connection()
        self._flush()
        self._end_if_idle()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._bytes_since_event += len(data)
        try:
            events = self._h2.receive_data(data)
            if events:
                self._bytes_since_event = 0
            elif self._bytes_since_event > HEAD_BYTES + FRAME_BYTES:
                raise h2.exceptions.FrameTooLargeError("bytes without an end")
        except h2.exceptions.ProtocolError as problem:
            log.debug("a client of HTTP/2 is sent away: %s", problem)
            self._flush()
            self._close()
            return
        for event in events:
            self._take(event)
        self._flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._begin(event)
            case h2.events.DataReceived():
                self._add(event)
            case h2.events.StreamEnded():
                self._tell(event.stream_id, whole=True)
            case h2.events.StreamReset():
                self._tell(event.stream_id, gone=True)
                self._resets += 1
                if self._resets > RESETS:
                    self._h2.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
                    self._flush()
                    self._close()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                for stream in self._streams.values():
                    stream.news.set()
            case h2.events.ConnectionTerminated():
                self._close()

    def _begin(self, event: h2.events.RequestReceived) -> None:
        number = event.stream_id
        assert number is not None
        if self._stops or self._place.has_no_place():
            self._h2.send_headers(number, [(b":status", b"503")], end_stream=True)
            return
        scope = self._scope([(bytes(name), bytes(value)) for name, value in event.headers or ()])
        stream = self._streams[number] = Stream(number, scope["method"] == "HEAD")
        task = self._loop.create_task(self._answer(stream, scope), name=f"HTTP/2 stream {number}")
        self._place.tasks.add(task)
        task.add_done_callback(self._place.tasks.discard)

    def _scope(self, given: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        told = {name: value for name, value in given if name.startswith(b":")}
        headers = [(name, value) for name, value in given if not name.startswith(b":")]
        if b":authority" in told and all(name != b"host" for name, _ in headers):
            headers.insert(0, (b"host", told[b":authority"]))
        path, _, query = told.get(b":path", b"/").partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "method": told.get(b":method", b"").decode("latin-1"),
            "scheme": self._place.scheme,
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "client": self._place.client,
            "server": self._place.server,
            "state": dict(self._place.state),
        }

    def _add(self, event: h2.events.DataReceived) -> None:
        number, length = event.stream_id, event.flow_controlled_length
        assert length is not None
        stream = self._streams.get(number)
        if stream is None or stream.is_answered:
            with contextlib.suppress(h2.exceptions.ProtocolError, KeyError):
                self._h2.acknowledge_received_data(length, number)  # nobody will read it
            return
        stream.body.append((bytes(event.data or b""), length))
        stream.news.set()

    def _tell(self, number: int | None, *, whole: bool = False, gone: bool = False) -> None:
        stream = self._streams.get(number or 0)
        if stream is not None:
            stream.is_whole |= whole
            stream.is_gone |= gone
            stream.news.set()

    async def _answer(self, stream: Stream, scope: dict[str, Any]) -> None:
        async def receive() -> Message:
            return await self._received(stream)

        async def send(message: Message) -> None:
            await self._sent(stream, message)

        try:
            await self._place.app(scope, receive, send)
        except Exception:
            log.exception("a request over HTTP/2 failed")
        finally:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        """The application is done with a request."""
        with contextlib.suppress(h2.exceptions.ProtocolError, KeyError):
            if not stream.is_gone and not (stream.is_answered and stream.is_whole):
                # what the client still sends of the body is for nobody (RFC 9113, 8.1); or no answer came
                code = h2.errors.ErrorCodes.NO_ERROR
                if not stream.is_answered:
                    code = h2.errors.ErrorCodes.INTERNAL_ERROR
                self._h2.reset_stream(stream.number, code)
            for _, length in stream.body:
                self._h2.acknowledge_received_data(length, stream.number)
        stream.body.clear()
        self._streams.pop(stream.number, None)
        self._flush()
        self._end_if_idle()

    async def _received(self, stream: Stream) -> Message:
        while True:
            if stream.is_gone or stream.is_answered:
                return {"type": "http.disconnect"}
            if stream.body or (stream.is_whole and not stream.is_read):
                data, length = stream.body.popleft() if stream.body else (b"", 0)
                with contextlib.suppress(h2.exceptions.ProtocolError, KeyError):
                    self._h2.acknowledge_received_data(length, stream.number)
                self._flush()
                stream.is_read = stream.is_whole and not stream.body
                return {"type": "http.request", "body": data, "more_body": not stream.is_read}
            stream.news.clear()
            await stream.news.wait()

    async def _sent(self, stream: Stream, message: Message) -> None:
        """Send a part of an answer; a client that is gone is noticed by `receive` alone, as with HTTP/1.1."""
        if stream.is_gone:
            return
        try:
            if message["type"] == "http.response.start":
                status = (b":status", b"%d" % message["status"])
                headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
                kept = [each for each in headers if each[0].lower() not in _OF_CONNECTION]
                self._h2.send_headers(stream.number, [status, *kept])
                self._flush()
                return
            if not stream.is_head:
                await self._send_body(stream, message.get("body", b""))
            if not message.get("more_body", False) and not stream.is_gone:
                self._h2.end_stream(stream.number)
                stream.is_answered = True
                self._resets = 0
                stream.news.set()
                self._flush()
        except (h2.exceptions.ProtocolError, KeyError):
            # The stream was closed between two frames: nobody waits for the rest.
            stream.is_gone = True
            stream.news.set()

    async def _send_body(self, stream: Stream, data: bytes) -> None:
        view = memoryview(data)
        while view and not stream.is_gone:
            if not self._may_write.is_set():
                await self._may_write.wait()
                continue
            room = min(self._h2.local_flow_control_window(stream.number), self._h2.max_outbound_frame_size)
            if room <= 0:
                stream.news.clear()
                await stream.news.wait()
                continue
            self._h2.send_data(stream.number, bytes(view[:room]))
            view = view[room:]
            self._flush()

    def _look_at_silence(self) -> None:
        """End a connection whose client owes bytes, or takes none, for too long; an idle one ends, too."""
        if self._loop.time() - self._heard_at > SILENT_SECONDS and not self._pushes():
            assert self._transport is not None
            self._transport.abort()
            return
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_at_silence)

    def _pushes(self) -> bool:
        """Whether the client has reason to be silent: it waits for an answer that it takes."""
        is_taken = self._may_write.is_set()
        return is_taken and any(each.is_whole and not each.is_answered for each in self._streams.values())

    def _end_if_idle(self) -> None:
        if self._stops and not self._streams:
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
