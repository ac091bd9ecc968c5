"""A question before data is destroyed: `--yes` answers it, and without a terminal the answer is no."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.frame.terminal import is_terminal, printable
from ottla.config.errors import UserError


def yes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--yes`, whose value the command hands to `confirm`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(function)


def confirm(question: str, yes: bool) -> None:
    """Go on only with a yes: --yes, or an answer on the terminal.

    question: without its mark, as `delete topic orders with 12 partitions`. Raises UserError for a no, and if
    there is no terminal.
    """
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise UserError(
            f"to {question} needs a yes, and there is no terminal to ask on: --yes goes on without asking"
        )
    sys.stderr.write(f"{printable(question)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was done")
