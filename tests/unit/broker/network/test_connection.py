"""Frames of one connection, however the bytes arrive: whole, in pieces, many at once, too large."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.network.connection import GATHER_LIMIT_BYTES, CloseConnection, Reply
from support.nodes.client_connection import MAX_REQUEST_BYTES, Harness, echo, framed


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:  # type: ignore[misc]
    made = asyncio.new_event_loop()
    yield made
    made.close()


@settings(deadline=None)
@given(
    frames=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 400), max_size=12),
    receive_bytes=st.integers(4, 600),
)
def test_every_frame_arrives_whole_and_in_order_however_the_bytes_are_cut(
    frames: list[bytes], cuts: list[int], receive_bytes: int
) -> None:
    loop = asyncio.new_event_loop()
    try:
        harness = Harness(loop, echo, receive_bytes)
        stream = b"".join(framed(frame) for frame in frames)
        for cut in cuts:
            harness.feed(stream[:cut])
            stream = stream[cut:]
        harness.feed(stream)
        assert harness.transport.written == b"".join(map(framed, frames))
    finally:
        loop.close()


def test_a_large_frame_grows_with_its_bytes_not_with_its_claim(loop: asyncio.AbstractEventLoop) -> None:
    harness = Harness(loop, echo)
    harness.feed((MAX_REQUEST_BYTES).to_bytes(4, "big") + b"x" * 10)
    assert len(harness.connection.get_buffer(-1)) <= MAX_REQUEST_BYTES
    harness.feed(b"x" * (MAX_REQUEST_BYTES - 10))
    assert harness.transport.written == framed(b"x" * MAX_REQUEST_BYTES)


@pytest.mark.parametrize("size", [0, -1, MAX_REQUEST_BYTES + 1, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(loop: asyncio.AbstractEventLoop, size: int) -> None:
    harness = Harness(loop, echo)
    harness.feed(framed(b"fine") + size.to_bytes(4, "big", signed=True) + b"rest")
    assert harness.transport.written == framed(b"fine")
    assert harness.transport.closed


def test_a_handler_that_gives_up_closes_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    def refuse(frame: bytes) -> Reply:
        raise CloseConnection("no")

    harness = Harness(loop, refuse)
    harness.feed(framed(b"a") + framed(b"b"))
    assert harness.transport.closed and harness.transport.written == b""


def test_requests_behind_a_waiting_one_wait_and_keep_their_order(loop: asyncio.AbstractEventLoop) -> None:
    # Given a request that waits, and two that arrive behind it in the same read
    waiting: asyncio.Future[Reply] = loop.create_future()
    harness = Harness(loop, lambda frame: waiting if frame == b"wait" else (frame + b" ",))
    harness.feed(framed(b"wait") + framed(b"second") + framed(b"third"))
    assert harness.transport.written == b"" and not harness.transport.reading

    # When the first is answered
    waiting.set_result((b"first ",))
    loop.run_until_complete(asyncio.sleep(0))

    # Then all answers come in the order of the requests, and reading goes on
    assert harness.transport.written == b"first second third "
    assert harness.transport.reading


def test_a_client_that_does_not_read_is_not_read_from(loop: asyncio.AbstractEventLoop) -> None:
    harness = Harness(loop, echo)
    harness.connection.pause_writing()
    harness.feed(framed(b"a"))
    assert harness.transport.written == b"" and not harness.transport.reading
    harness.connection.resume_writing()
    assert harness.transport.written == framed(b"a") and harness.transport.reading


def test_no_answer_is_written_for_a_request_without_one(loop: asyncio.AbstractEventLoop) -> None:
    harness = Harness(loop, lambda _: None)
    harness.feed(framed(b"acks=0"))
    assert harness.transport.written == b"" and not harness.transport.closed


def test_the_answers_to_one_read_leave_together(loop: asyncio.AbstractEventLoop) -> None:
    harness = Harness(loop, echo)
    harness.feed(framed(b"a") + framed(b"b") + framed(b"c"))
    assert harness.transport.writes == [framed(b"a") + framed(b"b") + framed(b"c")]
    harness.feed(framed(b"d"))
    assert harness.transport.writes[1:] == [framed(b"d")]


def test_large_answers_do_not_wait_for_each_other(loop: asyncio.AbstractEventLoop) -> None:
    # Given answers of which two are more than may be gathered
    answer = b"x" * (GATHER_LIMIT_BYTES * 2 // 3)
    harness = Harness(loop, lambda _: (answer,))
    # When five requests come in one read
    harness.feed(framed(b"?") * 5)
    # Then no write has more than two answers, and none is lost
    assert [len(write) // len(answer) for write in harness.transport.writes] == [2, 2, 1]


def test_answers_that_are_ready_are_sent_before_hanging_up(loop: asyncio.AbstractEventLoop) -> None:
    def refuse_third(frame: bytes) -> Reply:
        if frame == b"c":
            raise CloseConnection("no")
        return echo(frame)

    harness = Harness(loop, refuse_third)
    harness.feed(framed(b"a") + framed(b"b") + framed(b"c") + framed(b"d"))
    assert harness.transport.written == framed(b"a") + framed(b"b") and harness.transport.closed


def test_a_waiting_request_does_not_hold_back_the_answers_before_it(loop: asyncio.AbstractEventLoop) -> None:
    waiting: asyncio.Future[Reply] = loop.create_future()
    harness = Harness(loop, lambda frame: waiting if frame == b"wait" else echo(frame))
    harness.feed(framed(b"a") + framed(b"wait") + framed(b"b"))
    assert harness.transport.written == framed(b"a")
    waiting.set_result(echo(b"wait"))
    loop.run_until_complete(asyncio.sleep(0))
    assert harness.transport.written == framed(b"a") + framed(b"wait") + framed(b"b")
