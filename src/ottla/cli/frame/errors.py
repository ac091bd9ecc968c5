"""How a command fails: its exit codes, and the one line that tells an error. Needs nothing of click."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable, Iterable
from typing import Final

from ottla.cli.frame.terminal import Style, has_colours, is_terminal, printable, styled
from ottla.config.errors import UsageError, UserError

MAX_SUGGESTIONS: Final = 3


class ExitCode(enum.IntEnum):
    """The exit codes of all commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    FOUND = 3
    """The command did its work, and found that for which the user asked for a failure (`--fail-on`)."""
    INTERRUPTED = 130
    """Ctrl-C: 128 and the number of SIGINT, as shells have it."""
    BROKEN_PIPE = 141
    """The reader of the output has gone (`| head`): 128 and the number of SIGPIPE, as other tools end."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean order?` for the end of an error's line, or nothing if no known name is similar."""
    from difflib import get_close_matches

    similar = get_close_matches(name, list(known), n=MAX_SUGGESTIONS, cutoff=0.7)
    return f"; did you mean {' or '.join(similar)}?" if similar else ""


def exit_code_of(path: Callable[[], str], run: Callable[[], int]) -> int:
    """Run a command; its exit code. An error that is not ottla's own fault is told in one line on stderr.

    path: the words of the command that was reached, `ottla topic list`. Other errors are raised: their
    traceback is for us.
    """
    try:
        try:
            code = run()
        finally:
            sys.stdout.flush()
    except UserError as error:
        sys.stderr.write(error.trace)
        tell(path(), str(error))
        code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED
    except ModuleNotFoundError as error:
        from ottla.cli.frame.extras import is_of_an_extra, missing_package_line

        # Some packages are imported when the work that needs them has come.
        if error.name is None or not is_of_an_extra(error.name):
            raise
        tell(path(), missing_package_line(path(), error.name))
        code = ExitCode.FAILED
    except KeyboardInterrupt:
        if is_terminal(sys.stderr):
            sys.stderr.write("\n")  # after the `^C` that the terminal shows
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        code = ExitCode.BROKEN_PIPE
    except OSError as error:
        tell(path(), os_error_line(error))
        if not _can_flush():
            _discard_output()
        code = ExitCode.FAILED
    return int(code)


def tell(path: str, problem: str) -> None:
    """Write one line on stderr: the command and its problem."""
    line = " ".join(printable(each.strip()) for each in problem.splitlines() if each.strip())
    prefix = styled(f"{path}:", Style.RED) if has_colours(sys.stderr) else f"{path}:"
    try:
        sys.stderr.write(f"{prefix} {line}\n")
    except OSError:
        return


def os_error_line(error: OSError) -> str:
    """The file that could not be used, and why."""
    why = error.strerror or str(error) or type(error).__name__
    return why if error.filename is None else f"{error.filename}: {why}"


def _can_flush() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _discard_output() -> None:
    """Let the interpreter's last flush of stdout go nowhere: it would fail, and be told."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
