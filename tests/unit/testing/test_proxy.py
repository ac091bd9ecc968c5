"""The proxy before a broker: what each rule does to a connection."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.testing.ports import LOCALHOST, ReservedPort
from ottla.testing.proxy import HELD_BYTES, Proxy

TIMEOUT_S = 20.0


class Echo:
    """A server that sends back what it gets; `hold` makes it stop reading."""

    def __init__(self) -> None:
        self.listener = socket.create_server((LOCALHOST, 0))
        self.port: int = self.listener.getsockname()[1]
        self.reads = threading.Event()
        self.reads.set()
        self.got_bytes = 0
        self.ends = threading.Semaphore(0)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while self.reads.wait(TIMEOUT_S) and (data := connection.recv(65536)):
                    self.got_bytes += len(data)
                    connection.sendall(data)
            except OSError:
                pass
        self.ends.release()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.listener.close()


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    reserved = ReservedPort()
    yield reserved
    reserved.release()


@pytest.fixture
def proxy(echo: Echo, port: ReservedPort) -> Iterator[Proxy]:
    made = Proxy(port, echo.port)
    made.start()
    made.listen()
    yield made
    made.close()


@contextmanager
def client(port: ReservedPort) -> Iterator[socket.socket]:
    with socket.create_connection((LOCALHOST, port.number), timeout=TIMEOUT_S) as connection:
        yield connection


def told(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return received(connection, len(data))


def received(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        data = connection.recv(count - len(found))
        if not data:
            break
        found += data
    return found


def test_bytes_pass_both_ways_unchanged(proxy: Proxy, port: ReservedPort) -> None:
    data = random.randbytes(3_000_000)
    with client(port) as connection:
        threading.Thread(target=connection.sendall, args=(data,)).start()
        assert received(connection, len(data)) == data


def test_the_end_of_one_side_ends_the_other(proxy: Proxy, port: ReservedPort, echo: Echo) -> None:
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
    assert echo.ends.acquire(timeout=TIMEOUT_S)


def test_dropped_connections_are_reset_and_new_ones_taken(
    proxy: Proxy, port: ReservedPort, echo: Echo
) -> None:
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
        assert proxy.drop_connections() == 1
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert echo.ends.acquire(timeout=TIMEOUT_S)
    with client(port) as connection:
        assert told(connection, b"b") == b"b"


def test_refused_is_refused_and_a_connection_that_is_there_goes_on(proxy: Proxy, port: ReservedPort) -> None:
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError), client(port):
            pass
        assert told(connection, b"b") == b"b"
    proxy.listen()
    with client(port) as connection:
        assert told(connection, b"c") == b"c"


def test_silence_holds_bytes_and_gives_them_afterwards(proxy: Proxy, port: ReservedPort) -> None:
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
        proxy.set_silent(True)
        connection.sendall(b"b")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        proxy.set_silent(False)
        connection.settimeout(TIMEOUT_S)
        assert received(connection, 1) == b"b"


def test_a_client_that_leaves_in_silence_takes_its_connection_along(
    proxy: Proxy, port: ReservedPort, echo: Echo
) -> None:
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
        proxy.set_silent(True)
        connection.sendall(b"b")
    proxy.set_silent(False)
    assert echo.ends.acquire(timeout=TIMEOUT_S)
    assert proxy.drop_connections() == 0


def test_a_delay_is_added_both_ways_and_keeps_the_order(proxy: Proxy, port: ReservedPort) -> None:
    proxy.set_delay_ms(60)
    with client(port) as connection:
        before = time.monotonic()
        connection.sendall(b"a")
        threading.Timer(0.02, connection.sendall, (b"b",)).start()
        assert received(connection, 2) == b"ab"
        assert time.monotonic() - before >= 0.12
        proxy.set_delay_ms(0)
        assert told(connection, b"c") == b"c"


def test_a_server_that_does_not_read_is_given_a_bounded_number_of_bytes(
    proxy: Proxy, port: ReservedPort, echo: Echo
) -> None:
    echo.reads.clear()
    with client(port) as connection:
        connection.setblocking(False)
        sent, quiet_since = 0, time.monotonic()
        while time.monotonic() - quiet_since < 0.3:
            try:
                sent += connection.send(bytes(65536))
                quiet_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        # the kernel's buffers of four sockets hold some more
        assert sent < HELD_BYTES + 32 * 1024 * 1024
        echo.reads.set()
        connection.setblocking(True)
        connection.settimeout(TIMEOUT_S)
        assert len(received(connection, sent)) == sent


def test_a_server_that_is_not_there_resets_the_client(port: ReservedPort) -> None:
    nobody = ReservedPort()
    proxy = Proxy(port, nobody.number)
    proxy.start()
    proxy.listen()
    with pytest.raises(ConnectionResetError), client(port) as connection:
        connection.recv(1)
    proxy.close()
    nobody.release()


def test_a_closed_proxy_leaves_no_thread(echo: Echo, port: ReservedPort) -> None:
    proxy = Proxy(port, echo.port)
    proxy.start()
    proxy.listen()
    with client(port) as connection:
        assert told(connection, b"a") == b"a"
        proxy.close()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert not [each for each in threading.enumerate() if each.name == f"proxy at {port.address}"]
