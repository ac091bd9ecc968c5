"""A reserved port belongs to one server, over its restarts."""

from __future__ import annotations

import socket
import sys

import pytest

from ottla.testing.ports import LOCALHOST, ReservedPort

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems give the port away")


@linux
def test_a_client_meets_connection_refused_while_no_server_is_there() -> None:
    port = ReservedPort()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOCALHOST, port.number), timeout=5)
    port.release()


@linux
def test_a_server_listens_on_it_again_and_again_and_clients_that_stay_do_not_hinder_it() -> None:
    port = ReservedPort()
    clients = []
    for _ in range(3):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((LOCALHOST, port.lend()))
            server.listen()
            clients.append(socket.create_connection((LOCALHOST, port.number), timeout=5))
            server.accept()[0].close()
    for client in clients:
        client.close()
    port.release()


@linux
def test_no_other_socket_is_given_it() -> None:
    # given: all but a few of a range of ports are taken, so that a free one is soon found
    port = ReservedPort()
    others = []
    try:
        for _ in range(500):
            other = socket.socket()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((LOCALHOST, 0))
            others.append(other)
        assert port.number not in {each.getsockname()[1] for each in others}
        with socket.socket() as plain, pytest.raises(OSError, match="in use"):
            plain.bind((LOCALHOST, port.number))
    finally:
        for each in others:
            each.close()
        port.release()


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server((LOCALHOST, 0)) as other, pytest.raises(OSError, match="in use"):
        ReservedPort(other.getsockname()[1])
