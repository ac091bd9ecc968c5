"""Runs a command to its exit code: whatever happens, the user reads one line and no traceback of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import click

from ottla.cli.frame.commands import PATH_KEY
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.terminal import Style, has_colours, is_terminal, printable, styled
from ottla.config.errors import UsageError, UserError


def run_command(command: click.Command, words: Sequence[str], prog_name: str = "ottla") -> int:
    """Run a command with the words of a command line; its exit code. Its error is told in a line on stderr.

    An error of ottla itself is raised: its traceback is for us.
    """
    context: click.Context | None = None
    try:
        try:
            with command.make_context(prog_name, list(words)) as context:
                result = command.invoke(context)
            code = result if isinstance(result, int) else ExitCode.DONE
        finally:
            sys.stdout.flush()
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        assert asked.ctx is not None
        sys.stdout.write(asked.ctx.get_help() + "\n")
        code = ExitCode.USAGE
    except click.UsageError as error:
        path = prog_name if error.ctx is None else error.ctx.command_path
        tell(path, _usage_line(error, path))
        code = ExitCode.USAGE
    except click.ClickException as error:
        tell(prog_name, error.format_message())
        code = error.exit_code
    except UserError as error:
        sys.stderr.write(error.trace)
        tell(_path(context, prog_name), str(error))
        code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED
    except (KeyboardInterrupt, click.Abort):
        if is_terminal(sys.stderr):
            sys.stderr.write("\n")  # after the `^C` that the terminal shows
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        code = ExitCode.BROKEN_PIPE
    except OSError as error:
        tell(_path(context, prog_name), os_error_line(error))
        code = ExitCode.FAILED
        if not _can_flush():
            _discard_output()
    return int(code)


def run_async(coroutine: Coroutine[Any, Any, Any], *, fast_loop: bool = False) -> Any:
    """Run a command's coroutine on an event loop of its own; its result. Ctrl-C cancels it.

    fast_loop: uvloop, for commands that move many records; it takes longer to import than a listing needs.
    """
    import asyncio
    import logging

    from ottla.cli.event_loop import loop_factory

    # Its lines repeat the errors that the commands tell themselves.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with asyncio.Runner(loop_factory=loop_factory() if fast_loop else None) as runner:
        try:
            return runner.run(coroutine)
        except BaseExceptionGroup as group:
            raise _first_told(group) from None


def _first_told(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group that a user is told of; the group if there is none."""
    for error in group.exceptions:
        found = _first_told(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, UserError | OSError | KeyboardInterrupt):
            return found
    return group


def tell(path: str, problem: str) -> None:
    """Write one line on stderr: the command and its problem."""
    lines = " ".join(printable(line.strip()) for line in problem.splitlines() if line.strip())
    prefix = f"{path}:"
    if has_colours(sys.stderr):
        prefix = styled(prefix, Style.RED)
    try:
        sys.stderr.write(f"{prefix} {lines}\n")
    except OSError:
        return


def os_error_line(error: OSError) -> str:
    """The file that could not be used, and why."""
    why = error.strerror or str(error) or type(error).__name__
    return why if error.filename is None else f"{error.filename}: {why}"


def _usage_line(error: click.UsageError, path: str) -> str:
    """What is wrong with the words, and how they are to be."""
    message = error.format_message().strip()
    match error:
        case click.NoSuchCommand(command_name=name, possibilities=similar):
            message = f"there is no command {name!r}"
        case click.NoSuchOption(option_name=name, possibilities=similar):
            message = f"there is no option {name}"
        case _:
            similar = None
            message = message.removesuffix(".")
            message = message[:1].lower() + message[1:]
    if similar:
        return f"{message}; did you mean {' or '.join(sorted(similar))}?"
    return f"{message}; `{path} --help` tells how to use it"


def _path(context: click.Context | None, prog_name: str) -> str:
    """The words of the command that was reached: `ottla topic list`."""
    path: str = prog_name if context is None else context.meta.get(PATH_KEY, prog_name)
    return path


def _can_flush() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _discard_output() -> None:
    """Let the interpreter's last flush of stdout go nowhere: it would fail, and be told."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
