"""Connections to other nodes: versions are agreed, answers find their requests, failures end them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse

Answer = Callable[[int, int, int, asyncio.StreamWriter], Awaitable[None]]


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@asynccontextmanager
async def node(
    answer: Answer, served: dict[int, tuple[int, int]] | None = None
) -> AsyncIterator[PeerAddress]:
    """A node that serves `served` and answers requests as `answer` likes."""
    versions = served if served is not None else {int(ApiKey.FIND_COORDINATOR): (0, 4)}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, _ = decode_request_header(memoryview(await reader.readexactly(size)))
                key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
                if key == ApiKey.API_VERSIONS:
                    response = ApiVersionsResponse(
                        api_keys=[
                            ApiVersion(api_key=each, min_version=low, max_version=high)
                            for each, (low, high) in versions.items()
                        ]
                    )
                    writer.write(frame(encode_response(key, version, correlation_id, response)))
                else:
                    await answer(key, version, correlation_id, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield PeerAddress(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


async def host_of_version(key: int, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """Answers with the version that was asked in as the port."""
    response = FindCoordinatorResponse(host="h", port=version, node_id=1)
    if version >= 4:
        response = FindCoordinatorResponse(coordinators=[])
    writer.write(frame(encode_response(key, version, correlation_id, response)))


def ask(
    peers: PeerConnections, to: PeerAddress, *, timeout_ms: int = 5000, version: int | None = None
) -> Awaitable[object]:
    request = FindCoordinatorRequest(key="k", coordinator_keys=[])
    return peers.ask("test", to, request, timeout_ms=timeout_ms, version=version)


def test_the_newest_version_of_both_is_spoken() -> None:
    async def main() -> None:
        peers = PeerConnections("node-1")
        async with node(host_of_version, {int(ApiKey.FIND_COORDINATOR): (0, 2)}) as to:
            answer = await ask(peers, to)
            assert isinstance(answer, FindCoordinatorResponse) and answer.port == 2
            answer = await ask(peers, to, version=1)
            assert isinstance(answer, FindCoordinatorResponse) and answer.port == 1
            peers.close()

    asyncio.run(main())


def test_an_api_that_the_other_node_does_not_serve_is_unreachable() -> None:
    async def main() -> None:
        peers = PeerConnections("node-1")
        async with node(host_of_version, {}) as to:
            with pytest.raises(PeerUnreachable, match="does not serve"):
                await ask(peers, to, version=2)
        peers.close()

    asyncio.run(main())


def test_many_requests_at_once_get_their_own_answers() -> None:
    async def main() -> None:
        peers = PeerConnections("node-1")
        async with node(host_of_version) as to:
            answers = await asyncio.gather(*(ask(peers, to, version=each % 3) for each in range(60)))
            assert [getattr(each, "port", None) for each in answers] == [each % 3 for each in range(60)]
            peers.close()

    asyncio.run(main())


def test_the_bytes_of_a_purpose_are_those_on_its_sockets() -> None:
    async def main() -> None:
        sent = received = 0

        async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent, received
            there, back = await asyncio.open_connection(*to)

            async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> int:
                passed = 0
                with contextlib.suppress(ConnectionError):
                    while data := await source.read(777):
                        passed += len(data)
                        to.write(data)
                to.close()
                return passed

            counts = await asyncio.gather(pass_on(reader, back), pass_on(there, writer))
            sent, received = sent + counts[0], received + counts[1]
            passed_on.release()

        passed_on = asyncio.Semaphore(0)
        peers = PeerConnections("node-1")
        async with node(host_of_version) as to:
            between = await asyncio.start_server(counting, "127.0.0.1", 0)
            place = PeerAddress(*between.sockets[0].getsockname()[:2])
            for _ in range(2):
                await asyncio.gather(*(ask(peers, place, version=each % 3) for each in range(50)))
                peers.forget(place)
            for _ in range(2):
                await passed_on.acquire()
            assert (peers.bytes_of("other").sent, peers.bytes_of("other").received) == (0, 0)
            counts = peers.bytes_of("test")
            assert (counts.sent, counts.received) == (sent, received)
            assert sent > 2_000 and received > 2_000
            peers.close()
            between.close()

    asyncio.run(main())


def test_no_answer_ends_the_connection_and_the_next_request_makes_another() -> None:
    async def main() -> None:
        silent = True

        async def answer(key: int, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
            if not silent:
                await host_of_version(key, version, correlation_id, writer)

        peers = PeerConnections("node-1")
        async with node(answer) as to:
            with pytest.raises(PeerUnreachable, match="within 50 ms"):
                await ask(peers, to, timeout_ms=50, version=2)
            silent = False
            answered = await ask(peers, to, version=2)
            assert isinstance(answered, FindCoordinatorResponse) and answered.port == 2
            peers.close()

    asyncio.run(main())


def test_a_hang_up_ends_every_request_on_the_connection() -> None:
    async def main() -> None:
        async def hang_up(key: int, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
            writer.close()

        peers = PeerConnections("node-1")
        async with node(hang_up) as to:
            ends = await asyncio.gather(
                *(ask(peers, to, version=2) for _ in range(5)), return_exceptions=True
            )
            assert [type(each) for each in ends] == [PeerUnreachable] * 5, ends
        peers.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "nonsense",
    [b"\x7f\xff\xff\xff", frame(b"\0\0\0\x63 another correlation id"), frame(b"\0")],
    ids=["huge", "wrong-id", "short"],
)
def test_nonsense_ends_the_connection(nonsense: bytes) -> None:
    async def main() -> None:
        async def answer(key: int, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
            writer.write(nonsense)

        peers = PeerConnections("node-1")
        async with node(answer) as to:
            with pytest.raises(PeerUnreachable):
                await ask(peers, to, version=2)
        peers.close()

    asyncio.run(main())


def test_a_closed_port_is_unreachable_and_tried_again_later() -> None:
    async def main() -> None:
        peers = PeerConnections("node-1")
        async with node(host_of_version) as gone:
            pass
        for _ in range(3):
            with pytest.raises(PeerUnreachable):
                await ask(peers, gone, version=2)
        peers.close()
        with pytest.raises(PeerUnreachable, match="stopping"):
            await ask(peers, PeerAddress("127.0.0.1", 1))

    asyncio.run(main())


def test_who_gives_up_connecting_does_not_cancel_the_others() -> None:
    async def main() -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        to = PeerAddress(*server.sockets[0].getsockname()[:2])
        peers = PeerConnections("node-1")
        impatient = asyncio.ensure_future(ask(peers, to, timeout_ms=50))
        patient = asyncio.ensure_future(ask(peers, to, timeout_ms=60_000))
        with pytest.raises(PeerUnreachable):
            await impatient
        with pytest.raises(PeerUnreachable, match="could not be reached in time"):
            await patient
        cancelled = asyncio.ensure_future(ask(peers, to, timeout_ms=60_000))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        peers.close()
        server.close()

    asyncio.run(main())


def test_one_purpose_does_not_wait_for_another() -> None:
    async def main() -> None:
        released = asyncio.Event()

        async def answer(key: int, version: int, correlation_id: int, writer: asyncio.StreamWriter) -> None:
            if version == 1:
                await released.wait()
            await host_of_version(key, version, correlation_id, writer)

        peers = PeerConnections("node-1")
        request = FindCoordinatorRequest(key="k", coordinator_keys=[])
        async with node(answer) as to:
            slow = asyncio.ensure_future(peers.ask("long poll", to, request, timeout_ms=5000, version=1))
            quick = await peers.ask("votes", to, request, timeout_ms=5000, version=2)
            assert isinstance(quick, FindCoordinatorResponse) and not slow.done()
            released.set()
            await slow
            peers.close()

    asyncio.run(main())
