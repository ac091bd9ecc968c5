"""Connections in floods, without descriptors, a byte at a time: the broker serves the others and survives."""

from __future__ import annotations

import errno
import os
import re
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_batch import decode_records
from support.clients.wire import TIMEOUT_S, WireClient, batch, wait_for
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

EVENT_LOOPS = ["uvloop", pytest.param("asyncio", marks=pytest.mark.long)]
#: So that the system does not drop connections before the broker has a say.
BACKLOG = {"socket.listen.backlog.size": "1000"}


def cpu_seconds(broker: OttlaBroker) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_descriptors(broker: OttlaBroker) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def connections_of(broker: OttlaBroker) -> int:
    """The established connections that the broker has accepted."""
    here = f":{broker.port:04X}"
    lines = Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]  # a line may come twice while connections come and go
    return len({each[2] for each in fields if each[1].endswith(here) and each[3] == "01" and each[9] != "0"})


def limit_descriptors(broker: OttlaBroker, limit: int) -> None:
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, hard))


def log_lines(broker: OttlaBroker, word: str) -> list[str]:
    return [line for line in broker.server.log_path.read_text().splitlines() if word in line]


@contextmanager
def many(broker: OttlaBroker, count: int) -> Iterator[list[socket.socket]]:
    """That many connections on their way, accepted or not."""
    with ExitStack() as stack:
        links = [stack.enter_context(socket.socket()) for _ in range(count)]
        for link in links:
            link.setblocking(False)
            assert link.connect_ex(("127.0.0.1", broker.port)) in (0, errno.EINPROGRESS)
        yield links


def assert_written_and_read(client: WireClient, topic: str) -> None:
    answer = client.produce(topic, 0, batch(3))
    assert answer.error_code == 0
    assert client.fetch(topic, [0], answer.base_offset)[0].high_watermark == answer.base_offset + 3


@pytest.mark.parametrize("event_loop", EVENT_LOOPS)
def test_out_of_descriptors_the_connected_are_served_and_others_wait(tmp_path: Path, event_loop: str) -> None:
    environment = {"OTTLA_EVENT_LOOP": event_loop}
    with (
        OttlaBroker.start(tmp_path / "data", settings=BACKLOG, environment=environment) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        client.create_topic("kept")
        assert_written_and_read(client, "kept")
        # given a process that may open nothing more
        limit_descriptors(broker, open_descriptors(broker))
        # when many connect
        with many(broker, 300) as links:
            wait_for(lambda: bool(log_lines(broker, "accepting paused")))
            spent = cpu_seconds(broker)
            # then a client that is connected already is served: it writes, and its records can be read
            for _ in range(50):
                assert_written_and_read(client, "kept")
            select.select([links[-1]], [], [], 2.0)
            # and the broker does not spin, nor tell it again and again
            assert cpu_seconds(broker) - spent < 1.0
            assert len(log_lines(broker, "accepting paused")) == 1
            # when there are descriptors again
            limit_descriptors(broker, open_descriptors(broker) + 400)
            wait_for(lambda: connections_of(broker) >= 301)
            assert len(log_lines(broker, "accepting resumed")) == 1
        assert "Traceback" not in broker.server.log_path.read_text()


@pytest.mark.parametrize("event_loop", EVENT_LOOPS)
def test_connections_leave_descriptors_for_logs(tmp_path: Path, event_loop: str) -> None:
    environment = {"OTTLA_EVENT_LOOP": event_loop}
    with OttlaBroker.start(tmp_path / "data", settings=BACKLOG, environment=environment) as broker:
        # given a process that may have 256 descriptors in all
        broker.stop()
        broker.server.command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *broker.server.command]
        broker.restart()
        (line,) = log_lines(broker, "bounded by the process's descriptors")
        assert "connections=128 descriptors=256" in line
        with WireClient.connect(broker.bootstrap) as client, many(broker, 250):
            # when more connect than it can have
            wait_for(lambda: bool(log_lines(broker, "accepting paused")))
            assert connections_of(broker) == 128
            # then topics can be made and their logs be rolled
            client.create_topic("kept", 8, config={"segment.bytes": "1048576"})
            for partition in range(8):
                for _ in range(3):
                    assert client.produce("kept", partition, batch(value=bytes(500_000))).error_code == 0
            assert len(list(broker.data_dir.glob("kept-*/*.log"))) == 16
        wait_for(lambda: connections_of(broker) == 0)
        assert len(log_lines(broker, "accepting paused")) == 1


def test_a_log_without_a_descriptor_refuses_and_keeps_acknowledged_records(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("kept", config={"segment.bytes": "1048576"})
            acknowledged = [b"first"]
            assert client.produce("kept", 0, batch(value=b"first")).error_code == 0
            # given a process that may open nothing more
            limit_descriptors(broker, open_descriptors(broker))
            # when it has to roll
            codes = []
            for number in range(10):
                value = bytes([number]) * 400_000
                codes.append(client.produce("kept", 0, batch(value=value)).error_code)
                if codes[-1] == 0:
                    acknowledged.append(value)
            # then some are refused, and nothing worse happens
            assert set(codes) <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
            assert ErrorCode.KAFKA_STORAGE_ERROR in codes
            # when there are descriptors again
            limit_descriptors(broker, 1000)
            value = b"after"
            assert client.produce("kept", 0, batch(value=value)).error_code == 0
            acknowledged.append(value)
            assert values_read(client, "kept") == acknowledged
        broker.kill()
        broker.restart()
        with WireClient.connect(broker.bootstrap) as client:
            assert values_read(client, "kept") == acknowledged


def values_read(client: WireClient, topic: str) -> list[bytes]:
    batches = client.read_batches(topic, 0)
    return [record.value or b"" for _, data in batches for record in decode_records(data)]


def test_a_flood_of_connections_is_bounded_in_lines_and_others_are_served(tmp_path: Path) -> None:
    settings = {**BACKLOG, "max.connections.per.ip": "10"}
    with (
        OttlaBroker.start(tmp_path / "data", settings=settings) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        client.create_topic("kept")
        before = time.monotonic()
        # when thousands connect, most of them over the limit of an address
        for _ in range(4):
            with many(broker, 500):
                assert_written_and_read(client, "kept")
        seconds = time.monotonic() - before
        # then there are few lines, which tell of all
        wait_for(lambda: bool(log_lines(broker, "more within a second")))
        assert 2 <= len(log_lines(broker, "max.connections.per.ip")) <= seconds + 3
        # and all have been let go
        wait_for(lambda: connections_of(broker) == 1)
        assert_written_and_read(client, "kept")


def test_connections_dropped_at_once_cost_nothing_that_lasts(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("kept")
        before = open_descriptors(broker)
        for turn in range(10):
            with ExitStack() as stack:
                for number in range(50):
                    link = socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)
                    stack.enter_context(link)
                    if (turn + number) % 2:  # a reset instead of a good-bye
                        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            assert_written_and_read(client, "kept")
        wait_for(lambda: open_descriptors(broker) <= before)


def test_hundreds_of_slow_senders_hold_up_no_other_client(tmp_path: Path) -> None:
    with (
        OttlaBroker.start(tmp_path / "data", settings=BACKLOG) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        client.create_topic("kept")
        # given hundreds of requests that arrive a byte at a time
        with many(broker, 400) as links:
            wait_for(lambda: connections_of(broker) == 401)
            for byte in struct.pack(">i", 1000) + bytes(16):
                for link in links:
                    assert link.send(bytes([byte])) == 1
                assert_written_and_read(client, "kept")
            # then they are still there, as they are with Kafka, and cost a buffer each
            assert connections_of(broker) == 401


def test_accepted_connections_are_probed_when_they_fall_silent(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("kept")
        # a peer that vanishes without a word is found by the system's keep-alive
        keep_alive = re.compile(rf":{broker.port:04X} \S+ 01 \S+ 02:")
        listing = Path(f"/proc/{broker.pid}/net/tcp")
        wait_for(lambda: keep_alive.search(listing.read_text()) is not None)
