"""A client's connection without a socket: fed with bytes as the event loop would, for tests of one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.broker.network.answer_memory import AnswerMemory
from ottla.broker.network.connection import RECEIVE_BUFFER_BYTES, ClientConnection, Reply, Shared
from ottla.broker.network.request_memory import RequestMemory

MAX_REQUEST_BYTES = 1024 * 1024


class FakeTransport(asyncio.Transport):
    """Keeps what is written and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.reading = True
        self.unread_bytes = 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 50000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: object) -> None:
        self.writes.append(b"".join(bytes(each) for each in list_of_data))  # type: ignore[attr-defined]

    @property
    def written(self) -> bytes:
        """Everything written so far."""
        return b"".join(self.writes)

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True


def make_shared(
    loop: asyncio.AbstractEventLoop, *, request_bytes: int = -1, answer_bytes: int = 1 << 30
) -> Shared:
    return Shared(
        loop,
        max_request_bytes=MAX_REQUEST_BYTES,
        memory=RequestMemory(request_bytes, MAX_REQUEST_BYTES),
        answers=AnswerMemory(loop, answer_bytes),
        on_close=lambda _: None,
        heard=lambda: None,
    )


class Harness:
    """A connection with a handler that a test gives, fed with bytes as a socket would."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Callable[[bytes], Reply | Awaitable[Reply]],
        receive_bytes: int = RECEIVE_BUFFER_BYTES,
        shared: Shared | None = None,
    ) -> None:
        self.transport = FakeTransport()
        shared = shared or make_shared(loop)
        shared.receive = memoryview(bytearray(receive_bytes))
        self.connection = ClientConnection(
            loop,
            lambda _, frame: handler(bytes(frame)),
            "PLAINTEXT",
            "127.0.0.1",
            shared,
        )
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def echo(frame: bytes) -> Reply:
    return (framed(frame),)
