"""`ottla produce` and `ottla consume` as processes of their own, with bytes in and out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TIMEOUT_SECONDS = 60
SOURCES = Path(__file__).parents[3] / "src"


@dataclass(frozen=True, slots=True)
class RecordRun:
    """A command that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[bytes]:
        """The lines that it wrote."""
        return self.out.splitlines()


def started(
    bootstrap: str, *words: str, stdin: int | IO[bytes] | None = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a command with pipes; the caller ends it."""
    return subprocess.Popen(
        command(bootstrap, *words),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def command(bootstrap: str, *words: str) -> list[str]:
    """The words that run it."""
    return [sys.executable, "-m", "ottla", *words, "--bootstrap", bootstrap]


def environment() -> dict[str, str]:
    """The environment, with these sources, and without a user's own settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    return own | {"PYTHONPATH": str(SOURCES)}


def run(bootstrap: str, *words: str, input: bytes = b"", cwd: Path | None = None) -> RecordRun:
    """Run a command to its end."""
    done = subprocess.run(
        command(bootstrap, *words),
        input=input,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        env=environment(),
        cwd=cwd,
    )
    return RecordRun(done.returncode, done.stdout, done.stderr.decode())


def produced(bootstrap: str, topic: str, *words: str, input: bytes = b"") -> int:
    """Produce, which must succeed; how many records it says it wrote."""
    done = run(bootstrap, "produce", topic, *words, "--quiet", input=input)
    assert (done.code, done.err) == (0, ""), done
    return int(done.out)


def produced_json(bootstrap: str, topic: str, lines: Sequence[bytes]) -> None:
    """Produce JSON lines, which must succeed."""
    done = run(bootstrap, "produce", topic, "--json", input=b"".join(line + b"\n" for line in lines))
    assert (done.code, done.err) == (0, ""), done


def consumed(bootstrap: str, *words: str) -> bytes:
    """Consume to the end, which must succeed; what it wrote."""
    done = run(bootstrap, "consume", *words, "--exit")
    assert (done.code, done.err) == (0, ""), done
    return done.out
