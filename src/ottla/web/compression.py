"""gzip over HTTP: answers are compressed for clients that accept it, request bodies are unfolded.

An answer of known length is compressed from MIN_ANSWER_BYTES on: a smaller one fits into one packet anyway.
An answer that streams, whose length nobody knows, is compressed from its first byte, and each of its pieces
is flushed, so that the client reads a piece when it was sent.

A few KB of gzip can unfold to many MB. So a body is unfolded in pieces of UNFOLDED_PIECE_BYTES at most, each
when the reader asks for it, and the readers' bounds on bodies count unfolded bytes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

from starlette.types import Message, Receive, Send

from ottla.web.errors import ApiError
from ottla.web.media_types import quality

MIN_ANSWER_BYTES: Final = 1_024
LEVEL: Final = 1
"""JSON records shrink to an eighth at the lowest level (230 MB/s), to a tenth at the default (125 MB/s)."""
_GZIP: Final = 16
"""Added to the window's size, it stands for gzip's header and trailer."""
_ANSWER_WINDOW: Final = 13
"""8 KiB: an answer that streams holds some 100 KiB of memory, whole answers no less."""
_MEMORY_LEVEL: Final = 6
INLINE_BYTES: Final = 128 << 10
"""More bytes than these, which take 0.6 ms, are compressed on a thread."""
UNFOLDED_PIECE_BYTES: Final = 256 << 10
_NO_BODY: Final = frozenset({204, 304})
_COMPRESSIBLE: Final = (b"application/json", b"application/vnd.", b"text/")
_OWN_HEADERS: Final = frozenset({b"content-length", b"accept-ranges"})

Headers = Sequence[tuple[bytes, bytes]]


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether this Accept-Encoding header takes gzip (RFC 9110, section 12.5.3)."""
    weights: dict[str, float] = {}
    for text in accept_encoding.lower().split(","):
        name, *parameters = (part.strip() for part in text.split(";"))
        weights[name] = quality(parameters)
    for name in ("gzip", "x-gzip", "*"):
        if name in weights:
            return weights[name] > 0
    return False


class GzippedAnswer:
    """Compresses one answer on its way to `send`, unless it is small or can't be compressed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._compressor: zlib._Compress | None = None

    async def send(self, message: Message) -> None:
        """Takes the answer's messages in place of the server's `send`."""
        if message["type"] == "http.response.start":
            if _may_be_compressed(message["status"], message["headers"]):
                self._start = message
                return
        elif message["type"] == "http.response.body":
            if self._start is not None:
                start, self._start = self._start, None
                await self._send(self._begun(start, message))
            if self._compressor is not None:
                more = message.get("more_body", False)
                body = await self._compressed(message.get("body", b""), more)
                if body or not more:
                    await self._send({"type": "http.response.body", "body": body, "more_body": more})
                return
        await self._send(message)

    def _begun(self, start: Message, first: Message) -> Message:
        """The answer's start, with the headers of a compressed one if it is to be compressed."""
        length = _content_length(start["headers"])
        if length is None and not first.get("more_body", False):
            length = len(first.get("body", b""))
        if length is not None and length < MIN_ANSWER_BYTES:
            return start
        self._compressor = zlib.compressobj(
            LEVEL, zlib.DEFLATED, _GZIP + _ANSWER_WINDOW, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY
        )
        headers = [header for header in start["headers"] if header[0].lower() not in _OWN_HEADERS]
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        return {**start, "headers": headers}

    async def _compressed(self, body: bytes, more: bool) -> bytes:
        if len(body) > INLINE_BYTES:
            return await asyncio.get_running_loop().run_in_executor(None, self._compress, body, more)
        return self._compress(body, more)

    def _compress(self, body: bytes, more: bool) -> bytes:
        assert self._compressor is not None, "made with the answer's start"
        if more and not body:
            return b""
        made = self._compressor.compress(body) if body else b""
        return made + self._compressor.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)


class UnfoldedBody:
    """The body of a request in gzip, unfolded piece by piece."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._member = _new_member()
        self._within_member = False
        self._folded = b""
        """Bytes that have arrived and are not unfolded yet."""
        self._more_to_come = False
        """Whether the bytes that were unfolded may give more than the last piece."""
        self._arrived = False
        """Whether the last bytes have arrived."""

    async def receive(self) -> Message:
        """Gives the request's messages in place of the server's `receive`.

        Raises ApiError 400 for bytes that are not gzip, and for a body that ends too soon.
        """
        while self._folded or self._more_to_come or not self._arrived:
            if not self._folded and not self._more_to_come:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                self._folded = message.get("body", b"")
                self._arrived = not message.get("more_body", False)
            # readers ask for piece after piece without a pause: others get a turn between them
            await asyncio.sleep(0)
            piece = self._next_piece()
            more = bool(self._folded) or self._more_to_come or not self._arrived
            if not more and self._within_member:
                raise _not_gzip("it ends too soon")
            if piece or not more:
                return {"type": "http.request", "body": piece, "more_body": more}
        return await self._receive()

    def _next_piece(self) -> bytes:
        if not self._folded and not self._more_to_come:
            return b""
        self._within_member = True
        try:
            piece = self._member.decompress(self._folded, UNFOLDED_PIECE_BYTES)
        except zlib.error as problem:
            raise _not_gzip(str(problem)) from None
        self._folded = self._member.unconsumed_tail
        self._more_to_come = len(piece) == UNFOLDED_PIECE_BYTES
        if self._member.eof:
            # another member may follow, as `cat a.gz b.gz` writes them
            self._folded = self._member.unused_data
            self._member = _new_member()
            self._within_member = self._more_to_come = False
        return piece


def _new_member() -> zlib._Decompress:
    return zlib.decompressobj(_GZIP + zlib.MAX_WBITS)


def _not_gzip(reason: str) -> ApiError:
    return ApiError(400, 400, f"The request's body is not gzip: {reason}")


def _may_be_compressed(status: int, headers: Headers) -> bool:
    compressible = False
    for name, value in headers:
        match name.lower():
            case b"content-encoding":
                return False
            case b"content-type":
                compressible = value.startswith(_COMPRESSIBLE)
    return compressible and status >= 200 and status not in _NO_BODY


def _content_length(headers: Headers) -> int | None:
    for name, value in headers:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None
