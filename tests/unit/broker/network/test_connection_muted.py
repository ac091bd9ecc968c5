"""A connection that is muted for its client's quota (KIP-219): answered first, then silent for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.broker.network.connection import Reply
from support.nodes.client_connection import FakeTransport, Harness, framed, make_shared


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test moves on."""

    def __init__(self) -> None:
        self.now = 100.0
        super().__init__()

    def time(self) -> float:
        return self.now

    def step(self, seconds: float) -> None:
        """Let the time pass, and the timers that are due run."""
        self.now += seconds
        for _ in range(3):
            self.call_soon(self.stop)
            self.run_forever()


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    made = SteppedLoop()
    yield made
    made.close()


class Muting:
    """A handler that mutes its connection for the time that a request names, and answers it with itself."""

    def __init__(self, loop: SteppedLoop, **settings: int) -> None:
        self.loop = loop
        self.waiting: dict[bytes, asyncio.Future[Reply]] = {}
        self.harness = Harness(loop, self.handle, shared=make_shared(loop, **settings))

    @property
    def transport(self) -> FakeTransport:
        return self.harness.transport

    def handle(self, frame: bytes) -> Reply:
        word, _, throttle_ms = frame.partition(b" ")
        if throttle_ms:
            self.harness.connection.session.throttle_ms = int(throttle_ms)
            self.harness.connection.mute(int(throttle_ms))
        if word == b"silent":
            return None
        if word == b"wait":
            self.waiting[frame] = self.loop.create_future()
            return self.waiting[frame]  # type: ignore[return-value]
        return (word + b".",)


def test_the_answer_goes_out_first_and_the_requests_behind_it_wait(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"a 500") + framed(b"b") + framed(b"c")[:3])
    assert client.transport.written == b"a." and not client.transport.reading
    loop.step(0.499)
    assert client.transport.written == b"a."
    loop.step(0.002)
    assert client.transport.written == b"a.b." and client.transport.reading
    assert client.harness.connection.session.throttle_ms == 0
    client.harness.feed(framed(b"c")[3:])
    assert client.transport.written == b"a.b.c."


def test_a_request_without_an_answer_mutes_too(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"silent 500") + framed(b"b"))
    assert client.transport.written == b"" and not client.transport.reading
    loop.step(0.6)
    assert client.transport.written == b"b."


def test_a_muted_connection_with_nothing_behind_it_is_read_from_again(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"a 500"))
    assert not client.transport.reading
    loop.step(0.6)
    assert client.transport.reading
    client.harness.feed(framed(b"b"))
    assert client.transport.written == b"a.b."


def test_the_longer_of_two_times_counts(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"a 500") + framed(b"b"))
    client.harness.connection.mute(100)
    loop.step(0.2)
    assert client.transport.written == b"a."
    client.harness.connection.mute(1000)
    loop.step(0.9)
    assert client.transport.written == b"a."
    loop.step(0.2)
    assert client.transport.written == b"a.b."


def test_a_request_that_is_answered_late_gets_its_answer_while_the_connection_is_muted(
    loop: SteppedLoop,
) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"wait 500") + framed(b"b"))
    client.waiting[b"wait 500"].set_result((b"late.",))
    loop.step(0.1)
    assert client.transport.written == b"late." and not client.transport.reading
    loop.step(0.5)
    assert client.transport.written == b"late.b."


def test_a_time_that_ends_before_the_answer_holds_nothing_up(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"wait 500") + framed(b"b"))
    loop.step(0.6)
    assert client.transport.written == b""
    client.waiting[b"wait 500"].set_result((b"late.",))
    loop.step(0.0)
    assert client.transport.written == b"late.b." and client.transport.reading


def test_a_muted_client_is_not_idle(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"a 5000"))
    loop.step(4.0)
    client.harness.connection.close_if_idle_since(loop.time() - 1)
    assert not client.transport.closed
    loop.step(1.1)
    client.harness.connection.close_if_idle_since(loop.time() - 1)
    assert not client.transport.closed
    loop.step(2.0)
    client.harness.connection.close_if_idle_since(loop.time() - 1)
    assert client.transport.closed


def test_a_client_that_hangs_up_while_it_is_muted_leaves_nothing(loop: SteppedLoop) -> None:
    client = Muting(loop)
    client.harness.feed(framed(b"a 500") + framed(b"b"))
    client.harness.connection.connection_lost(None)
    loop.step(0.6)
    assert client.transport.written == b"a."


def test_a_muted_connection_gives_back_the_memory_of_its_answered_request(loop: SteppedLoop) -> None:
    shared = make_shared(loop, request_bytes=1 << 20)
    client = Muting(loop)
    client.harness = Harness(loop, client.handle, receive_bytes=64, shared=shared)
    large = b"wait 500" + b" " * 100_000
    client.harness.feed(framed(large))
    assert shared.memory.held_bytes > 100_000
    client.waiting[large].set_result((b"late.",))
    loop.step(0.1)
    assert client.transport.written == b"late."
    assert shared.memory.held_bytes == 0


def test_a_frame_that_waits_for_memory_is_not_read_on_before_it_has_some(loop: SteppedLoop) -> None:
    shared = make_shared(loop, request_bytes=1000)
    first = Harness(loop, lambda frame: (frame,), receive_bytes=64, shared=shared)
    first.feed(framed(b"x" * 900_000)[:2000])  # the oldest frame has all of the memory
    client = Muting(loop)
    client.harness = Harness(loop, client.handle, receive_bytes=64, shared=shared)
    client.harness.feed(framed(b"a 500") + framed(b"y" * 5000)[:20])
    loop.step(0.6)
    assert client.transport.written == b"a." and not client.transport.reading
