"""`ottla` run in this process: its exit code and its words, for tests that run it hundreds of times."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

from ottla.cli.main import main


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A run of a command that has ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        """The JSON objects that it wrote, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def ottla(bootstrap: str, *words: str) -> CommandRun:
    """Run a command of a group, `topic list` say, that asks the cluster at `bootstrap`; any exit code.

    The cluster is named before the words that may be `--`: behind it, it would be one more name.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words[:2], "--bootstrap", bootstrap, *words[2:]])
    return CommandRun(words, code, out.getvalue(), err.getvalue())


def done(bootstrap: str, *words: str) -> list[Any]:
    """The JSON objects that a command writes, which must succeed."""
    run = ottla(bootstrap, *words[:2], "--json", *words[2:])
    assert (run.code, run.err) == (0, ""), run
    return run.rows


def refused(bootstrap: str, *words: str, code: int = 1) -> str:
    """The one line with which a command fails."""
    run = ottla(bootstrap, *words)
    assert run.code == code, run
    (line,) = run.err.splitlines()
    assert line.startswith(f"ottla {words[0]}"), run
    return line
