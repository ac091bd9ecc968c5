"""The demo's own broker: a port that is taken, a broker that does not start, a parent that dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.demo.broker import BrokerError, OwnBroker, parse_listen
from ottla.demo.child_process import ChildProcess
from ottla.pipeline.file_lock import FileLock


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_listen_addresses(listen: str, address: tuple[str, int]) -> None:
    assert parse_listen(listen) == address


@pytest.mark.parametrize("listen", ["", "9092", ":9092", "host:", "host:0", "host:65536", "host:x"])
def test_a_text_that_is_not_an_address_is_an_error(listen: str) -> None:
    with pytest.raises(BrokerError, match="is not HOST:PORT"):
        parse_listen(listen)


def test_a_port_in_use_gives_an_error_with_advice(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(BrokerError, match=rf"port {port} on 127\.0\.0\.1 is in use: .*--listen"):
            OwnBroker.start(directory, f"127.0.0.1:{port}")

    assert not (directory / "broker").exists()


def test_an_address_of_another_machine_is_an_error(directory: Path) -> None:
    with pytest.raises(BrokerError, match=r"cannot listen on 192\.0\.2\.77:9092"):
        OwnBroker.start(directory, "192.0.2.77:9092")


def child(lock: Path, module: Path) -> subprocess.Popen[bytes]:
    """The broker's child process, with a stand-in for the `ottla` command in it."""
    code = (
        "import runpy, sys\n"
        "from ottla.demo import child_process\n"
        f"child_process.runpy.run_module = lambda *_, **__: runpy.run_path({str(module)!r})\n"
        f"child_process._child([{str(lock)!r}, 'broker'])\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM cannot be caught there")
def test_a_broker_stops_by_itself_when_its_parent_is_gone(tmp_path: Path) -> None:
    # given: a command that runs until SIGTERM
    module = tmp_path / "stand_in.py"
    module.write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print(sys.argv[1:], flush=True)\n"
        "while True: signal.pause()\n"
    )
    with child(tmp_path / "lock", module) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"['broker']\n"
        assert not FileLock(tmp_path / "lock").acquire()

        # when: the other end of its standard input is closed, as it is when the parent dies
        assert process.stdin is not None
        process.stdin.close()

        # then
        assert process.wait(30) == 3
    assert FileLock(tmp_path / "lock").acquire()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL does not exist there")
def test_an_ended_broker_says_how(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    broker = OwnBroker(ChildProcess(process, tmp_path / "broker.log"), "127.0.0.1:9092")
    assert broker.ended() is None

    os.kill(broker.pid, signal.SIGKILL)
    process.wait(30)

    assert broker.ended() == f"the broker ended by signal 9 (log: {tmp_path / 'broker.log'})"
    broker.stop()
    broker.stop()
