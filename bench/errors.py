"""The error of a benchmark: a run that can't be trusted is an error, never a gap in the table."""

from __future__ import annotations


class BenchError(Exception):
    """A broker, a client or an output was not as expected; the message says which, with its last output."""


def tail(text: str, lines: int = 20) -> str:
    """The last lines of what a process wrote, for an error message."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
