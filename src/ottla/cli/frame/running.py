"""Runs a click command to its exit code: an error is one line, never a traceback of ours."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import click

from ottla.cli.frame.commands import Reached
from ottla.cli.frame.errors import ExitCode, did_you_mean, exit_code_of
from ottla.cli.frame.errors import tell as tell
from ottla.cli.frame.terminal import narrow_terminal
from ottla.config.errors import UserError


def run_command(command: click.Command, words: Sequence[str], prog_name: str = "ottla") -> int:
    """Run a command with the words of a command line; its exit code, see `exit_code_of`."""
    reached = Reached(prog_name)
    return exit_code_of(lambda: reached.path, lambda: _run(command, words, reached))


def _run(command: click.Command, words: Sequence[str], reached: Reached) -> int:
    try:
        with command.make_context(
            reached.path, list(words), obj=reached, terminal_width=narrow_terminal()
        ) as context:
            result = command.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        assert asked.ctx is not None
        sys.stdout.write(asked.ctx.get_help() + "\n")
        return ExitCode.USAGE
    except click.UsageError as error:
        tell(reached.path, _usage_line(error, reached.path))
        return ExitCode.USAGE
    except click.ClickException as error:
        tell(reached.path, error.format_message())
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else ExitCode.DONE


def _usage_line(error: click.UsageError, path: str) -> str:
    """The mistake in the words, and advice."""
    advice = f"; `{path} --help` tells how to use it"
    match error:
        case click.NoSuchCommand(command_name=name, possibilities=similar):
            return f"there is no command {name!r}{did_you_mean(name, similar or ()) or advice}"
        case click.NoSuchOption(option_name=name, possibilities=similar):
            return f"there is no option {name}{did_you_mean(name, similar or ()) or advice}"
    message = error.format_message().strip().removesuffix(".")
    return message[:1].lower() + message[1:] + advice


def run_async(coroutine: Coroutine[Any, Any, Any], *, fast_loop: bool = False) -> Any:
    """Run a command's coroutine on an event loop of its own; its result. Ctrl-C cancels it.

    fast_loop: uvloop, for commands that move many records; it takes longer to import than a listing needs.
    """
    import asyncio
    import logging

    from ottla.cli.frame.event_loop import loop_factory

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
