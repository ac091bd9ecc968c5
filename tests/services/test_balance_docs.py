"""The walk of docs/balance.md, run in its order on free ports; its HTTP lines too."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.docs.blocks import indented, section
from support.servers.cluster import ServerProcess, free_port

PAGE = "balance.md"
BROKERS = 4
TIMEOUT_S = 180
pytestmark = [pytest.mark.slow, pytest.mark.system("curl")]


def lines(title: str) -> list[str]:
    return [line for block in indented(section(PAGE, title)) for line in block.splitlines() if line]


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody uses now."""
    for _ in range(200):
        first = free_port()
        if first + count < 60_000 and all(_is_free(first + one) for one in range(1, count)):
            return first
    raise AssertionError("no ports in a row are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Shell:
    """A reader's shell: `ottla` is this tree's, and the page's addresses are free ones."""

    def __init__(self, directory: Path) -> None:
        tools = directory / "bin"
        tools.mkdir()
        program = tools / "ottla"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
        program.chmod(0o755)
        self._directory = directory
        self.broker = free_ports(BROKERS)
        self._service = 0
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP": f"127.0.0.1:{self.broker}",
        }

    @property
    def service(self) -> int:
        """The service's port, taken when the brokers have theirs."""
        self._service = self._service or free_port()
        return self._service

    def adapted(self, line: str) -> str:
        """The line for this machine, with rates that are watched for a moment only."""
        words = line.split()
        if words[:2] == ["ottla", "balance"] and words[2] not in ("status", "serve"):
            line += " --interval 0.3"
        few = "--set offsets.topic.num.partitions=2 --set transaction.state.log.num.partitions=2"
        line = line.replace("--data ./data", f"--data ./data --listen 127.0.0.1:{self.broker} {few}")
        if "127.0.0.1:9090" in line:
            line = line.replace("127.0.0.1:9090", f"127.0.0.1:{self.service}")
        return line.replace("127.0.0.1:9092", f"127.0.0.1:{self.broker}")

    def run(self, line: str) -> str:
        run = subprocess.run(
            ["sh", "-c", self.adapted(line)],
            cwd=self._directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert run.returncode == 0, (line, run.stdout, run.stderr)
        return run.stdout

    def serve(self, stack: ExitStack, line: str, ready: str) -> None:
        words: Sequence[str] = self.adapted(line).split()
        command = [sys.executable, "-m", *words]
        command = [one if one != "./data" else str(self._directory / "data") for one in command]
        server = ServerProcess(command, ready, self._directory / f"{words[1]}.log")
        server.start()
        stack.callback(server.stop)


def test_the_page_is_as_it_says(tmp_path: Path) -> None:
    assert shutil.which("curl")
    shell = Shell(tmp_path)
    with ExitStack() as stack:
        start, *walk = lines("A walk")
        shell.serve(stack, start, "ottla broker ready")
        told = {line: shell.run(line) for line in walk}
        assert "replicas move" in told["ottla balance plan"]
        assert "done: " in told["ottla balance run --yes --throttle 20000000"]
        assert (
            "8 of 8 partitions are as planned"
            in told["ottla balance replicas orders 3 --yes --skip-rack-awareness-check"]
        )
        assert "brokers are needed" in told["ottla balance rightsize --growth 2"]
        assert "done" in told["ottla balance status"]
        serve, *asked = lines("HTTP")
        shell.serve(stack, serve, "ottla balance ready")
        assert '"Broker":1' in shell.run(asked[0])
        assert '"numReplicaMovements"' in shell.run(asked[1])
