"""How a command fails: its exit codes, and words for errors."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

MAX_SUGGESTIONS: Final = 3


class ExitCode(enum.IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130
    """Ctrl-C: 128 and the number of SIGINT, as shells have it."""
    BROKEN_PIPE = 141
    """The reader of the output has gone (`| head`): 128 and the number of SIGPIPE, as other tools end."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean order?` for the end of an error's line, or nothing if no known name is similar."""
    from difflib import get_close_matches

    similar = get_close_matches(name, list(known), n=MAX_SUGGESTIONS, cutoff=0.7)
    return f"; did you mean {' or '.join(similar)}?" if similar else ""
