"""No server outlives the process that started it, paused or not, even if that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.processes import descendants, wait_until_gone

PROGRAM = """
import sys, time
from ottla.testing import running_broker, running_cluster, running_registry

with running_broker() as broker, running_cluster(2) as cluster, running_registry(broker.bootstrap):
    cluster.broker(2).pause()
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_all_servers_end_with_the_process_that_started_them(how: signal.Signals, tmp_path: Path) -> None:
    # given: a broker, a cluster with a paused broker, and a registry
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert program.stdout is not None and program.stdout.readline() == b"up\n"
    children = descendants(program.pid)
    servers = [command for command in children.values() if "ottla" in command or "registry" in command]
    assert len(servers) == 4, children
    # when
    program.send_signal(how)
    program.wait(60)
    # then
    assert not wait_until_gone(children)
    # and a program that was not killed has removed its files
    assert how == signal.SIGKILL or not list(tmp_path.iterdir())
