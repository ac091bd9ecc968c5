"""Groups and commands of `ottla`: click's, with examples in their help and groups that import late.

The group of the top level knows its commands by name, place and summary, and imports one when its name is on
the command line: help and completion of the group import none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.frame.entries import Entry, load_module

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
NARROW_COLUMNS: Final = 60


class Reached:
    """The words of the command that the parser has reached, for errors; it is the contexts' `obj`."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path


def _reach(ctx: click.Context) -> None:
    if isinstance(ctx.obj, Reached):
        ctx.obj.path = ctx.command_path


class HelpFormatter(click.HelpFormatter):
    """Click's, with narrower columns of names where the terminal is narrow."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and their texts in two columns; a long name has a line of its own."""
        names = col_max if self.width >= NARROW_COLUMNS else max(6, self.width // 5)
        super().write_dl(rows, names, col_spacing)


class Context(click.Context):
    """Click's, with our formatter of help."""

    formatter_class = HelpFormatter


class Command(click.Command):
    """A command whose help ends with examples.

    examples: lines for a shell, as a user types them; a line that begins with `#` is a remark.
    """

    context_class = Context

    def __init__(self, *words: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        settings.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*words, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; errors from now on are this command's."""
        _reach(ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the epilog."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class Group(click.Group):
    """A group of commands that are declared with `@group.command(name, examples=[…])`, in that order."""

    command_class = Command
    group_class = type
    context_class = Context

    def __init__(self, *words: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        settings.setdefault("context_settings", CONTEXT_SETTINGS)
        super().__init__(*words, **settings)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words before a command's; errors from now on are this group's."""
        _reach(ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of their declarations."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands and the first sentences of their help, whole: click cuts them."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary_of(each)) for name, each in found if each and not each.hidden])

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
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


class WordOrDefault(LazyGroup):
    """A lazy group of which one command is meant where the first word is none of its commands.

    default: that command's word, which may be left out.
    """

    def __init__(self, *words: Any, default: str, entries: Mapping[str, Entry], **settings: Any) -> None:
        super().__init__(*words, entries=entries, **settings)
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the default command, or of one of the others; `--help` is the group's."""
        named = bool(args) and (args[0] in self.entries or args[0] in ("-h", "--help"))
        if not named and not (ctx.resilient_parsing and not args):  # a shell completes the first word
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names."""
        behind = args[1:2]
        if args[:1] == [self.default] and behind and not behind[0].startswith("-"):
            # No argument of the default command, so a word that was meant as a command.
            raise click.NoSuchCommand(behind[0], possibilities=self.entries, ctx=ctx)
        return super().resolve_command(ctx, args)


def load(entry: Entry, path: str) -> click.Command:
    """Import a command. path: its words, for errors. Raises UserError, see `load_module`."""
    module_name, _, attribute = entry.target.partition(":")
    command: click.Command = getattr(load_module(module_name, path), attribute)
    return command


def summary_of(command: click.Command) -> str:
    """The first sentence of a command's help, as the entries of the top level are written."""
    sentence = command.get_short_help_str(limit=1_000).removesuffix(".")
    return sentence[:1].upper() + sentence[1:]


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
