"""`ottla connect`: a worker of Connect; or, with one of its words, a question to the workers that run."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

WORKER: Final = "worker"
"""The word that stands for the worker itself, which needs none."""


class WordOrWorker(LazyGroup):
    """A group whose worker is meant where the first word is none of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the worker, or of one of the commands; `--help` is the group's."""
        named = bool(args) and (args[0] in self.entries or args[0] in ("-h", "--help"))
        if not named and not (ctx.resilient_parsing and not args):  # a shell completes the first word
            args = [WORKER, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names."""
        behind = args[1:2]
        if args[:1] == [WORKER] and behind and not behind[0].startswith("-"):
            # No argument of the worker, so a word that was meant as a command.
            raise click.NoSuchCommand(behind[0], possibilities=self.entries, ctx=ctx)
        return super().resolve_command(ctx, args)


def _of_this_room(module: str, attribute: str) -> str:
    return f"ottla.cli.connect.{module}:{attribute}"


ENTRIES: Final[dict[str, Entry]] = {
    WORKER: Entry("ottla.cli.servers.connect:connect", "Run a worker; the word may be left out"),
    "standalone": Entry(
        "ottla.cli.servers.connect:standalone", "Run a worker alone, with its connectors' files"
    ),
    "apply": Entry(
        _of_this_room("apply", "apply"), "Create and change connectors until they are as files say"
    ),
    "list": Entry(_of_this_room("showing", "list_"), "List connectors with their states"),
    "status": Entry(_of_this_room("showing", "status"), "Show the states of connectors and their tasks"),
    "config": Entry(
        _of_this_room("showing", "config"), "Show a connector's configuration, as a file for apply"
    ),
    "logs": Entry(_of_this_room("logs", "logs"), "Show the lines that a connector and its tasks have logged"),
    "restart": Entry(_of_this_room("changing", "restart"), "Start connectors and their tasks anew"),
    "pause": Entry(_of_this_room("changing", "pause"), "Have connectors wait, with their tasks"),
    "resume": Entry(_of_this_room("changing", "resume"), "Have paused and stopped connectors go on"),
    "stop": Entry(_of_this_room("changing", "stop"), "End the tasks of connectors, and keep the rest"),
    "delete": Entry(_of_this_room("changing", "delete"), "Delete connectors"),
    "offsets": Entry(_of_this_room("offsets", "offsets"), "Show, change and reset a connector's offsets"),
    "signal": Entry(_of_this_room("signal", "signal"), "Ask a source of a database's changes for a snapshot"),
    "plugins": Entry(_of_this_room("plugins", "plugins"), "List plugins, and the settings of one"),
}


def _group(**settings: Any) -> WordOrWorker:
    return WordOrWorker("connect", entries=ENTRIES, **settings)


connect: Final = _group(
    help="""Run a worker of Connect, or ask the workers that run.

Without one of the commands below it is a worker: `ottla connect --config worker.properties`. The commands ask
any worker, of ottla or of Kafka itself, at --url.""",
    examples=(
        "ottla connect --bootstrap 127.0.0.1:9092",
        "ottla connect apply connectors/",
        "ottla connect list",
        "ottla connect status orders-to-lake --trace",
        "ottla connect restart orders-to-lake --tasks --only-failed",
    ),
)
