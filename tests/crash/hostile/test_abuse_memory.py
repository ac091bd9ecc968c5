"""Clients that send half of large requests, or never read answers: memory is bounded, others are served."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from support.clients.wire import TIMEOUT_S, WireClient, batch, wait_for
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

MIB = 1024 * 1024
TOPIC = "large"
SMALL_BUFFERS = {"socket.send.buffer.bytes": "65536", "socket.listen.backlog.size": "1000"}


def resident_bytes(broker: OttlaBroker) -> int:
    fields = Path(f"/proc/{broker.pid}/statm").read_text().split()
    return int(fields[1]) * 4096


@contextmanager
def links(broker: OttlaBroker, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S))
            for _ in range(count)
        ]


def fetch_frame(max_bytes: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )
    frame = encode_request(ApiKey.FETCH, 12, 1, "deaf", request)
    return struct.pack(">i", len(frame)) + frame


def fill(client: WireClient, mib: int) -> None:
    client.create_topic(TOPIC)
    for _ in range(mib):
        assert client.produce(TOPIC, 0, batch(value=bytes(MIB - 200))).error_code == 0


def is_gone(link: socket.socket) -> bool:
    """Whether the broker has hung up, whatever it had sent before."""
    link.settimeout(0.0)
    try:
        while link.recv(MIB):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "others_fetch", [False, pytest.param(True, marks=pytest.mark.long)], ids=["alone", "others-fetch"]
)
def test_deaf_consumers_cost_a_bounded_amount_and_are_let_go_for_others(
    tmp_path: Path, others_fetch: bool
) -> None:
    with (
        OttlaBroker.start(tmp_path / "data", settings=SMALL_BUFFERS) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        fill(client, 8)
        before = resident_bytes(broker)
        with links(broker, 200) as deaf:
            # when 200 consumers ask for 8 MiB each, several times, and read nothing of it
            for link in deaf:
                link.sendall(fetch_frame(8 * MIB) * 3)
            # then small requests are answered all the while
            for _ in range(20):
                assert client.produce(TOPIC, 0, batch()).error_code == 0
            # and they cost the bound, one answer and the buffers of each, not 1.6 GB
            grown = resident_bytes(broker) - before
            assert 100 * MIB < grown < 340 * MIB
            if not others_fetch:
                return
            # when a client that reads wants to fetch, it gets its turn: the deaf ones make room
            client.connection.settimeout(60)
            assert len(client.fetch(TOPIC, [0], max_bytes=4 * MIB)[0].records) > 3 * MIB
            assert sum(map(is_gone, deaf)) > 10
        log = broker.server.log_path.read_text()
        assert "it does not read its answers" in log
        assert len(log.splitlines()) < 60 and "Traceback" not in log


@pytest.mark.long
def test_half_requests_are_held_within_queued_max_request_bytes(tmp_path: Path) -> None:
    settings = {
        "queued.max.request.bytes": str(32 * MIB),
        "socket.request.max.bytes": str(16 * MIB),
        "message.max.bytes": str(16 * MIB),
        "socket.listen.backlog.size": "1000",
    }
    with (
        OttlaBroker.start(tmp_path / "data", settings=settings) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        fill(client, 1)
        before = resident_bytes(broker)
        with links(broker, 30) as senders:
            # when 30 clients send 3 MiB of 15 each, as far as they are read from, and no more
            for sender in senders:
                sender.setblocking(False)
                data = memoryview(struct.pack(">i", 15 * MIB) + bytes(3 * MIB))
                _send_what_is_taken(sender, data)
            # then small requests are answered, and memory is bounded
            for _ in range(20):
                assert client.produce(TOPIC, 0, batch()).error_code == 0
            assert resident_bytes(broker) - before < (32 + 16 + 20) * MIB
            # when a client sends a whole request, it gets its turn: clients that stopped make room
            client.connection.settimeout(60)
            large = batch(value=bytes(10 * MIB))
            assert client.produce(TOPIC, 0, large).error_code == 0
            assert "queued.max.request.bytes" in broker.server.log_path.read_text()
        wait_for(lambda: client.produce(TOPIC, 0, large).error_code == 0)


def _send_what_is_taken(link: socket.socket, data: memoryview) -> None:
    sent = 0
    while sent < len(data):
        try:
            sent += link.send(data[sent : sent + 65536])
        except BlockingIOError:
            return


def test_a_limit_of_memory_below_one_request_stops_the_start(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        broker.stop()
        broker.server.command = [*broker.server.command, "--set", "queued.max.request.bytes=1000"]
        with pytest.raises(Exception, match=r"queued\.max\.request\.bytes"):
            broker.restart()
