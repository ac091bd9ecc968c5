"""`ottla completion`: the script with which a shell completes commands, options, topics and groups."""

from __future__ import annotations

import sys

import click

from ottla.cli.frame.commands import group
from ottla.cli.frame.completing import COMPLETE_VARIABLE, PROG


@group(
    "completion",
    examples=[
        "# bash: for every new shell, in ~/.bashrc",
        'eval "$(ottla completion bash)"',
        "# zsh: in ~/.zshrc, after compinit",
        'eval "$(ottla completion zsh)"',
        "# fish",
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    ],
)
def completion() -> None:
    """Write the script with which a shell completes commands, options, and names of topics and groups.

    Names come from the cluster that the line names so far, else from the one that the command would ask; a
    cluster that does not answer within a second or two gives none.
    """


def _write_script(shell: str) -> None:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # The script holds names alone, no command: those are asked for when a word is completed.
    sys.stdout.write(kind(click.Group(PROG), {}, PROG, COMPLETE_VARIABLE).source() + "\n")


@completion.command("bash", examples=['eval "$(ottla completion bash)"'])
def bash() -> None:
    """For bash, from version 4.4."""
    _write_script("bash")


@completion.command("zsh", examples=['eval "$(ottla completion zsh)"'])
def zsh() -> None:
    """For zsh."""
    _write_script("zsh")


@completion.command("fish", examples=["ottla completion fish | source"])
def fish() -> None:
    """For fish."""
    _write_script("fish")
