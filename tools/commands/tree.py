"""The commands of this version, as click declares them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import click

from ottla.cli.main import COMMANDS, ottla
from ottla.config.errors import UserError


class Registered(NamedTuple):
    """A command or group. name: its words without `ottla`."""

    name: str
    command: click.Command

    @property
    def path(self) -> str:
        """All its words."""
        return f"ottla {self.name}"

    @property
    def examples(self) -> tuple[str, ...]:
        """The lines of its examples."""
        return tuple(getattr(self.command, "examples", ()))

    def context(self, width: int = 100) -> click.Context:
        """A context for its help."""
        settings = {**self.command.context_settings, "max_content_width": width}
        return click.Context(self.command, info_name=self.path, terminal_width=width, **settings)

    def below(self) -> Iterator[Registered]:
        """The commands of a group, all levels down; the command itself if it works without a further word."""
        if not isinstance(self.command, click.Group):
            yield self
            return
        if self.command.invoke_without_command:
            yield self
        with self.context() as context:
            for word in self.command.list_commands(context):
                command = None
                with contextlib.suppress(UserError):
                    command = self.command.get_command(context, word)
                if command is not None and not command.hidden:
                    yield from Registered(f"{self.name} {word}", command).below()


def top_level() -> list[Registered]:
    """The entries of the command whose modules are there."""
    whole = ottla()
    found = []
    with click.Context(whole, info_name="ottla") as context:
        for name in COMMANDS:
            with contextlib.suppress(UserError):
                command = whole.get_command(context, name)
                assert command is not None
                found.append(Registered(name, command))
    return found
