"""What connections hold together: requests under construction, answers that nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.broker.network import answer_memory, request_memory
from ottla.broker.network.connection import FRAME_GROWTH_BYTES, SMALL_READ_BYTES, Reply
from ottla.protocol.apis import ApiKey
from support.nodes.client_connection import MAX_REQUEST_BYTES, Harness, echo, framed, make_shared

LIMIT = 4 * FRAME_GROWTH_BYTES


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def turn(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))


def begin(harness: Harness, size: int, arrived: int) -> None:
    """The first `arrived` bytes of a frame of `size`."""
    harness.feed(framed(bytes(size))[: 4 + arrived])


# -- requests -------------------------------------------------------------------------------------------


def test_claims_cost_nothing_bytes_do(loop: asyncio.AbstractEventLoop) -> None:
    shared = make_shared(loop, request_bytes=LIMIT)
    for _ in range(4):
        begin(Harness(loop, echo, shared=shared), MAX_REQUEST_BYTES, 100)
    assert shared.memory.held_bytes == LIMIT and not shared.memory.short


def test_a_frame_without_room_waits_and_others_that_come_whole_are_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    # Given all memory taken by frames in the making
    shared = make_shared(loop, request_bytes=LIMIT)
    holders = [Harness(loop, echo, shared=shared) for _ in range(4)]
    for holder in holders:
        begin(holder, FRAME_GROWTH_BYTES - 4, 100)
    # When one more begins
    late = Harness(loop, echo, shared=shared)
    size = FRAME_GROWTH_BYTES + 1000
    begin(late, size, 100)
    # Then it is not read from, and everybody else in small pieces only
    assert not late.transport.reading
    other = Harness(loop, echo, shared=shared)
    assert len(other.connection.get_buffer(-1)) == SMALL_READ_BYTES
    other.feed(framed(b"heartbeat"))
    assert other.transport.written == framed(b"heartbeat")
    # When two of the others are complete
    for holder in holders[1:3]:
        holder.feed(bytes(FRAME_GROWTH_BYTES - 4 - 100))
    # Then it goes on to its end, and nothing is held for those that have been answered
    assert late.transport.reading and not shared.memory.short
    late.feed(bytes(size - 100))
    assert late.transport.written == framed(bytes(size))
    assert shared.memory.held_bytes == 2 * FRAME_GROWTH_BYTES


def test_the_oldest_frame_can_always_be_finished(loop: asyncio.AbstractEventLoop) -> None:
    # Given frames that want more together than there is, all of them half way
    shared = make_shared(loop, request_bytes=LIMIT)
    senders = [Harness(loop, echo, shared=shared) for _ in range(4)]
    left = {sender: framed(bytes(MAX_REQUEST_BYTES)) for sender in senders}
    peak = 0
    # When each sends as long as it is read from
    for _ in range(200):
        for sender in senders:
            if sender.transport.reading and left[sender]:
                piece, left[sender] = left[sender][:50_000], left[sender][50_000:]
                feed_while_reading(sender, piece, left)
            peak = max(peak, shared.memory.held_bytes)
    # Then all are answered, within the limit and one request
    assert all(sender.transport.written == framed(bytes(MAX_REQUEST_BYTES)) for sender in senders)
    assert peak <= LIMIT + MAX_REQUEST_BYTES + 4
    assert shared.memory.held_bytes == 0


def feed_while_reading(sender: Harness, piece: bytes, left: dict[Harness, bytes]) -> None:
    while piece and sender.transport.reading:
        buffer = sender.connection.get_buffer(-1)
        count = min(len(buffer), len(piece))
        buffer[:count] = piece[:count]
        sender.connection.buffer_updated(count)
        piece = piece[count:]
    left[sender] = piece + left[sender]


def test_who_stops_half_way_is_let_go_only_while_others_wait(loop: asyncio.AbstractEventLoop) -> None:
    shared = make_shared(loop, request_bytes=LIMIT)
    stopped = [Harness(loop, echo, shared=shared) for _ in range(4)]
    for sender in stopped:
        begin(sender, FRAME_GROWTH_BYTES - 4, 100)
    later = loop.time() + request_memory.PATIENCE_SECONDS + 1
    # nobody waits
    shared.memory.hurry(later)
    assert not any(sender.transport.closed for sender in stopped)
    # somebody does, but not for long
    waiting = Harness(loop, echo, shared=shared)
    begin(waiting, 1000, 10)
    shared.memory.hurry(loop.time())
    assert not any(sender.transport.closed for sender in stopped)
    # and then for too long
    shared.memory.hurry(later)
    assert all(sender.transport.closed for sender in stopped)
    for sender in stopped:
        sender.connection.connection_lost(None)
    waiting.feed(bytes(990))
    assert waiting.transport.written == framed(bytes(1000))
    assert shared.memory.held_bytes == 0


def test_a_request_behind_one_that_waits_counts_and_is_let_go_too(loop: asyncio.AbstractEventLoop) -> None:
    # Given a request that waits for long, and a large one behind it
    shared = make_shared(loop, request_bytes=LIMIT)
    waiting: asyncio.Future[Reply] = loop.create_future()
    hoarder = Harness(loop, lambda frame: waiting, shared=shared)
    hoarder.feed(framed(b"wait") + framed(bytes(LIMIT)))
    assert shared.memory.held_bytes >= LIMIT
    # When another one needs memory
    other = Harness(loop, echo, shared=shared)
    begin(other, FRAME_GROWTH_BYTES, 10)
    begin_more = Harness(loop, echo, shared=shared)
    begin(begin_more, FRAME_GROWTH_BYTES, 10)
    assert not begin_more.transport.reading
    shared.memory.hurry(loop.time() + request_memory.PATIENCE_SECONDS + 1)
    # Then it loses its connection, and the others go on
    assert hoarder.transport.closed
    hoarder.connection.connection_lost(None)
    assert begin_more.transport.reading


def test_what_is_set_aside_is_given_back_when_it_is_handled(loop: asyncio.AbstractEventLoop) -> None:
    shared = make_shared(loop)
    waiting: asyncio.Future[Reply] = loop.create_future()
    harness = Harness(loop, lambda frame: waiting if frame == b"wait" else echo(frame), shared=shared)
    harness.feed(framed(b"wait") + framed(b"a") * 3 + framed(bytes(100))[:50])
    assert shared.memory.held_bytes == 3 * 5 + 50 and not harness.transport.reading
    waiting.set_result((b"",))
    turn(loop)
    assert harness.transport.written == framed(b"a") * 3 and harness.transport.reading
    assert shared.memory.held_bytes == 104
    harness.feed(bytes(54))
    assert shared.memory.held_bytes == 0


# -- answers --------------------------------------------------------------------------------------------

FETCH = ApiKey.FETCH.to_bytes(2) + b"fetch"
HEARTBEAT = ApiKey.HEARTBEAT.to_bytes(2) + b"heartbeat"


class Deaf(Harness):
    """A client that has `unread` bytes waiting."""

    def leave_unread(self, size: int) -> None:
        self.transport.unread_bytes = size
        self.connection.pause_writing()

    def read_all(self) -> None:
        self.transport.unread_bytes = 0
        self.connection.resume_writing()


def test_fetches_wait_while_too_much_is_unread_and_others_do_not(loop: asyncio.AbstractEventLoop) -> None:
    # Given more unread than may be
    shared = make_shared(loop, answer_bytes=1000)
    deaf = Deaf(loop, echo, shared=shared)
    deaf.leave_unread(1001)
    # When others ask
    readers = [Deaf(loop, echo, shared=shared) for _ in range(3)]
    for reader in readers:
        reader.feed(framed(HEARTBEAT) + framed(FETCH) + framed(HEARTBEAT))
    turn(loop)
    # Then what is small is answered
    assert all(reader.transport.written == framed(HEARTBEAT) for reader in readers)
    assert not any(reader.transport.reading for reader in readers)
    # When there is twice too much, nothing is
    deaf.leave_unread(2001)
    late = Deaf(loop, echo, shared=shared)
    late.feed(framed(HEARTBEAT))
    assert late.transport.written == b""
    # When it was read
    deaf.read_all()
    for _ in range(5):
        turn(loop)
    # Then all go on
    assert all(r.transport.written == framed(HEARTBEAT) + framed(FETCH) + framed(HEARTBEAT) for r in readers)
    assert late.transport.written == framed(HEARTBEAT)
    assert all(reader.transport.reading for reader in (*readers, late))


def test_those_who_waited_go_on_one_by_one_as_long_as_there_is_room(loop: asyncio.AbstractEventLoop) -> None:
    shared = make_shared(loop, answer_bytes=1000)
    deaf = Deaf(loop, echo, shared=shared)
    deaf.leave_unread(1001)
    readers: list[Deaf] = []
    for number in range(5):

        def answer_unread(frame: bytes, number: int = number) -> Reply:
            readers[number].leave_unread(600)
            return echo(frame)

        readers.append(Deaf(loop, answer_unread, shared=shared))
        readers[-1].feed(framed(FETCH))
    deaf.read_all()
    for _ in range(10):
        turn(loop)
    assert [bool(reader.transport.written) for reader in readers] == [True, True, False, False, False]


def test_the_deaf_are_let_go_while_others_wait_and_who_reads_is_not(loop: asyncio.AbstractEventLoop) -> None:
    shared = make_shared(loop, answer_bytes=1000)
    deaf, slow = Deaf(loop, echo, shared=shared), Deaf(loop, echo, shared=shared)
    deaf.leave_unread(800)
    slow.leave_unread(800)
    late = loop.time() + answer_memory.PATIENCE_SECONDS + 1
    shared.answers.hurry(late)
    assert not deaf.transport.closed  # nobody waits
    waiting = Deaf(loop, echo, shared=shared)
    waiting.feed(framed(FETCH))
    slow.transport.unread_bytes = 790
    shared.answers.hurry(late)
    assert deaf.transport.closed and not slow.transport.closed
    turn(loop)
    assert waiting.transport.written == framed(FETCH)


def test_a_client_that_reads_nothing_is_idle_one_that_reads_slowly_is_not(
    loop: asyncio.AbstractEventLoop,
) -> None:
    deaf, slow = Deaf(loop, echo), Deaf(loop, echo)
    for client in (deaf, slow):
        client.leave_unread(1000)
        client.connection.close_if_idle_since(0.0)
        client.connection.last_active = 0.0
    slow.transport.unread_bytes = 999
    for client in (deaf, slow):
        client.connection.close_if_idle_since(loop.time() - 1)
    assert deaf.transport.closed and not slow.transport.closed
