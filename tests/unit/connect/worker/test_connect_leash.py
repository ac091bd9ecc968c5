"""A leash: orders pass, and the host is dead when its worker is gone, frozen, or wants it so."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ottla.connect.worker import leash

HOST = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)\n"
STUCK = "import sys, time\nprint('up', flush=True)\ntime.sleep(600)\n"


def start(program: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", leash.__name__, sys.executable, "-c", program]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def read(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_orders_pass_and_leases_do_not() -> None:
    process = start(HOST)
    write(process, leash.lease(60_000))
    write(process, b'{"type":"stop"}\n')
    assert read(process) == b'{"type":"stop"}\n'
    assert process.stdin is not None
    process.stdin.close()
    assert read(process) == b""
    process.wait(20)


def test_a_host_whose_lease_is_over_is_killed() -> None:
    process = start(STUCK)
    assert read(process) == b"up\n"
    write(process, leash.lease(100))
    assert process.wait(20) != 0
    assert read(process) == b""


def test_a_lease_that_comes_too_late_does_not_let_the_host_live() -> None:
    process = start(STUCK)
    assert read(process) == b"up\n"
    write(process, leash.lease(0) + leash.lease(60_000))
    assert process.wait(20) != 0


def test_a_host_without_a_lease_lives_until_its_worker_ends() -> None:
    process = start(STUCK)
    assert read(process) == b"up\n"
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)
    assert read(process) == b""


def test_a_host_is_killed_at_its_workers_wish() -> None:
    process = start(STUCK)
    assert read(process) == b"up\n"
    write(process, leash.kill())
    process.wait(20)


def test_children_of_a_host_die_with_it(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"import time, pathlib\nwhile True: pathlib.Path({str(alive)!r}).touch(); time.sleep(0.02)"
    parent = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    process = start(parent)
    while not alive.exists():
        time.sleep(0.02)
    write(process, leash.kill())
    process.wait(20)
    alive.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not alive.exists()
