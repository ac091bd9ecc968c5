"""Groups and commands of `ottla`: click's, with examples in their help and groups that import late.

The group of the top level knows its commands by name, place and summary, and imports one when its name is on
the command line: help and completion of the group import none of them.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from ottla.config.errors import UserError

PATH_KEY: Final = "ottla.command_path"
"""In `meta`, which all contexts of a command line share: the words of the command that was reached."""
CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Entry(NamedTuple):
    """Where a command is, `module:attribute` (a click command), and one line that says what it does."""

    target: str
    summary: str


class Command(click.Command):
    """A command whose help ends with examples.

    examples: lines for a shell, as a user types them; a line that begins with `#` is a remark.
    """

    def __init__(self, *words: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        settings.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*words, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; errors from now on are this command's."""
        ctx.meta[PATH_KEY] = ctx.command_path
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group of commands that are declared with `@group.command(name, examples=[…])`, in that order."""

    command_class = Command
    group_class = type

    def __init__(self, *words: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        settings.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*words, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before a command's; errors from now on are this group's."""
        ctx.meta[PATH_KEY] = ctx.command_path
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of their declarations."""
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class LazyGroup(Group):
    """A group that imports a command when it is called."""

    def __init__(self, *words: Any, entries: Mapping[str, Entry], **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of the entries."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None if there is none. Raises UserError."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        return load(entry, f"{ctx.command_path} {cmd_name}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names. Raises click.NoSuchCommand, which knows similar names."""
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=self.entries, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and summaries of the commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, without importing the commands; after `-`, the options."""
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def load(entry: Entry, path: str) -> click.Command:
    """Import a command. path: its words, for errors. Raises UserError if a package or it is missing."""
    module_name, _, attribute = entry.target.partition(":")
    # Modules stay: a collector that looks through them as they come costs a broker 12 ms of its start.
    gc.disable()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        name = missing.name or ""
        if name and f"{module_name}.".startswith(f"{name}."):
            raise UserError(f"this version of ottla does not have `{path}`") from None
        if not name or name.partition(".")[0] == "ottla":
            raise
        raise UserError(f"`{path}` needs the package {name}: pip install 'ottla[all]'") from None
    finally:
        gc.enable()
    if attribute == "main":  # not on the frame yet
        return _adapted(module.main)
    command: click.Command = getattr(module, attribute)
    return command


def _adapted(main: Callable[[list[str]], int]) -> click.Command:
    settings = {"ignore_unknown_options": True, "help_option_names": [], "allow_interspersed_args": False}
    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        None, context_settings=settings, params=[words], callback=lambda words: main(list(words))
    )


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write the lines of the section `Examples`, never wrapped: they are to be copied."""
    if not examples:
        return
    formatter.write_paragraph()
    formatter.write("Examples:\n")
    formatter.write("".join(f"  {line}\n" for line in examples))


def command(
    name: str, *, examples: Sequence[str] = (), **settings: Any
) -> Callable[[Callable[..., Any]], Command]:
    """A command of the top level, `@command("produce", examples=[…])`."""
    return click.command(name, cls=Command, examples=examples, **settings)


def group(
    name: str, *, examples: Sequence[str] = (), **settings: Any
) -> Callable[[Callable[..., Any]], Group]:
    """A group of the top level, `@group("topic")`, whose commands are declared with `@topic.command(…)`."""
    return click.group(name, cls=Group, examples=examples, **settings)
