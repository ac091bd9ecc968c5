"""`ottla mirror`: a mirror of a file; or, with one of its words, a question to the mirrors that run."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

RUN: Final = "run"
"""The word that stands for the mirror itself, which needs none."""


class WordOrFile(LazyGroup):
    """A group whose mirror is meant where the first word is none of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a mirror, or of one of the commands; `--help` is the group's."""
        named = not args or args[0] in self.entries or args[0] in ("-h", "--help")
        if not named and not ctx.resilient_parsing:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


ENTRIES: Final[dict[str, Entry]] = {
    RUN: Entry("ottla.cli.servers.mirror:run", "Run the flows of a file; the word may be left out"),
    "status": Entry("ottla.cli.mirror.status:status", "Show flows and partitions: lag, throughput, losses"),
}


def _group(**settings: Any) -> WordOrFile:
    return WordOrFile("mirror", entries=ENTRIES, **settings)


mirror: Final = _group(
    help="""Copy topics, groups and their offsets between clusters, as MirrorMaker 2 does.

`ottla mirror FILE` runs the flows of an mm2.properties file. The other commands ask a mirror that runs, at
--url.""",
    examples=(
        "ottla mirror mm2.properties",
        "ottla mirror mm2.properties --clusters B",
        "ottla mirror status",
        "ottla mirror status --json",
    ),
)
