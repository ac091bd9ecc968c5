"""Runs the plays of plays.py: a real broker, a shell, and outputs whose figures stay the same."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from commands.plays import Play

TIMEOUT_SECONDS: Final = 120
SHOWN_BOOTSTRAP: Final = "127.0.0.1:9092"
SHOWN_ID: Final = "J8qXRwI-Qy6G0ZpM5vKb1A"
SHOWN_TIME: Final = "2026-01-31T12:00:00.000Z"
SHOWN_TIME_MS: Final = "1769860800000"
_ID: Final = re.compile(r"(?<![\w/.-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[A-Za-z0-9_-]{22}(?![\w-])")
_TIME: Final = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.:]\d+)?(Z|\+00:00)?")
_TIME_MS: Final = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")


class Shown(NamedTuple):
    """A line of a play, and its output on the terminal."""

    command: str
    line: str
    output: str


#: Of the broker: groups form at once, and there are ACLs for clients other than the plays' own.
SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=0",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


class PlayFailed(Exception):
    """A line that ended with another exit code than its play says."""


def run_plays(plays: Iterable[Play]) -> list[Shown]:
    """Run the plays on a broker of their own. Raises PlayFailed."""
    shown: list[Shown] = []
    with _stage() as (directory, environment, bootstrap):
        for play in plays:
            for number, line in enumerate(play.lines):
                hidden = line.startswith("- ")
                said = line.removeprefix("- ")
                done = subprocess.run(
                    ["bash", "-c", said.replace(SHOWN_BOOTSTRAP, bootstrap)],
                    cwd=directory,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    text=True,
                    timeout=TIMEOUT_SECONDS,
                    check=False,
                )
                expected = play.exit_code if number == len(play.lines) - 1 else 0
                if done.returncode != expected:
                    raise PlayFailed(f"{said!r} ended with {done.returncode}:\n{done.stdout}")
                if not hidden:
                    shown.append(Shown(play.command, said, _normal(done.stdout, directory, bootstrap)))
    return shown


def _normal(output: str, directory: Path, bootstrap: str) -> str:
    """The output with ids, times, ports and places that another run does not have."""
    host, _, port = bootstrap.partition(":")
    output = output.replace(bootstrap, SHOWN_BOOTSTRAP).replace(f"{directory}/", "~/")
    output = re.sub(rf"\b{port}\b", "9092", output)
    output = re.sub(rf"{re.escape(host)}:(?!9092\b)\d{{4,5}}\b", f"{host}:9093", output)
    output = _TIME_MS.sub(SHOWN_TIME_MS, _TIME.sub(SHOWN_TIME, output))
    return "\n".join(line.rstrip() for line in _ID.sub(SHOWN_ID, output).splitlines())


def _free_port() -> int:
    """A port with as many digits as Kafka's own, so that tables keep their columns."""
    for port in range(9_100, 9_900):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise PlayFailed("there is no free port of four digits")


@contextmanager
def _stage() -> Iterator[tuple[Path, dict[str, str], str]]:
    """A directory, an environment with the command `ottla`, and the address of a broker.

    The first plays make that address the current profile's.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        binaries = directory / "bin"
        binaries.mkdir()
        script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n'
        (binaries / "ottla").write_text(script, encoding="utf-8")
        (binaries / "ottla").chmod(0o755)
        bootstrap = f"127.0.0.1:{_free_port()}"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")},
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory / ".config"),
        }
        words = ["broker", "--data", "data", "--listen", bootstrap]
        for setting in SETTINGS:
            words += ["--set", setting]
        broker = subprocess.Popen(
            [str(binaries / "ottla"), *words],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert broker.stdout is not None and "ready" in broker.stdout.readline()
            yield directory, environment, bootstrap
        finally:
            broker.terminate()
            broker.wait(TIMEOUT_SECONDS)
