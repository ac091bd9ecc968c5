"""Starting, asking and stopping a broker, with a few lines of Python in ottla's place."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from bench import metadata_client, processes
from bench.errors import BenchError
from bench.servers import System, serve

# Runs as `python -c FAKE -m ottla broker --data DIR --listen HOST:PORT …`; its first answer names none.
FAKE_BROKER = """
import signal, socket, struct, sys
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
port = int(sys.argv[sys.argv.index("--listen") + 1].rpartition(":")[2])
listener = socket.create_server(("127.0.0.1", port))
for brokers in (0, 1):
    connection, _ = listener.accept()
    size, = struct.unpack(">i", connection.recv(4))
    api_key, version, correlation_id = struct.unpack_from(">hhi", connection.recv(size))
    assert (api_key, version) == (3, 1)
    body = struct.pack(">ii", correlation_id, brokers)
    connection.sendall(struct.pack(">i", len(body)) + body)
{then}
signal.sigwait((signal.SIGTERM,))
sys.exit({exit_code})
"""


def fake(then: str = "", exit_code: int = 0) -> tuple[str, str]:
    return ("-c", FAKE_BROKER.format(then=then, exit_code=exit_code))


def test_a_broker_is_started_when_it_names_itself_in_its_metadata(tmp_path):
    # given a broker whose first answer names no broker
    with serve(System.OTTLA, tmp_path, ottla_python_flags=fake()) as server:
        # then the second answer was waited for, and its process can be looked at
        assert server.start_seconds > 0
        assert server.format_seconds is None
        assert server.resident_bytes() > 1 << 20
        assert server.cpu_seconds() >= 0
    assert server.process.returncode == 0


def test_a_broker_that_does_not_start_is_an_error_with_its_last_words(tmp_path):
    with (
        pytest.raises(BenchError, match=r"(?s)exit code 3.*no room"),
        serve(System.OTTLA, tmp_path, ottla_python_flags=("-c", "print('no room'); raise SystemExit(3)")),
    ):
        pytest.fail("it did not start")


def test_a_broker_that_dies_in_a_run_is_an_error(tmp_path):
    with (
        pytest.raises(BenchError, match="exit code 7"),
        serve(System.OTTLA, tmp_path, ottla_python_flags=fake(then="sys.exit(7)")) as server,
    ):
        server.process.wait()


def test_a_broker_that_stops_badly_is_an_error(tmp_path):
    with (
        pytest.raises(BenchError, match="stopped with exit code 9"),
        serve(System.OTTLA, tmp_path, ottla_python_flags=fake(exit_code=9)),
    ):
        pass


def test_a_failed_run_leaves_no_broker_behind(tmp_path):
    with (
        pytest.raises(RuntimeError),
        serve(System.OTTLA, tmp_path, ottla_python_flags=fake()) as server,
    ):
        raise RuntimeError
    assert server.process.returncode == -9


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\7", b"\0\0\0\10\0\0\0\1", b"\0\0\0\7\xff\xff\xff\xff"])
def test_an_answer_that_is_no_metadata_is_an_error(answer):
    with pytest.raises(BenchError, match="not a Metadata response"):
        metadata_client.broker_count(answer)


def test_nobody_answers():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(BenchError, match="no answer"):
            metadata_client.wait_for_metadata(port, timeout_seconds=0.02, still_running=lambda: None)


def test_a_process_is_counted_with_its_children():
    program = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdout.readline()
        tree = processes.process_tree(parent.pid)
        assert tree[0] == parent.pid and len(tree) == 2
        assert processes.resident_bytes(parent.pid) > processes.resident_bytes(tree[1])
        parent.stdin.close()
    with pytest.raises(BenchError, match="gone"):
        processes.process_tree(parent.pid)
