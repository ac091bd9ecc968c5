"""`ottla sql`: the terminal; or, with one of its words, the server, tests of scripts."""

from __future__ import annotations

from typing import Any, Final

from ottla.cli.frame.commands import WordOrDefault
from ottla.cli.frame.entries import Entry

TERMINAL: Final = "terminal"
"""The word that stands for the terminal itself, which needs none."""


def _of_this_room(module: str, attribute: str) -> str:
    return f"ottla.cli.sql.{module}:{attribute}"


ENTRIES: Final[dict[str, Entry]] = {
    TERMINAL: Entry(
        _of_this_room("terminal", "terminal"), "Type statements, or run those given; the word may be left out"
    ),
    "server": Entry("ottla.cli.servers.sql:server", "Run a server of SQL on any Kafka cluster"),
    "migrate": Entry(_of_this_room("migrate", "migrate"), "Apply numbered files of statements, each once"),
    "test": Entry(_of_this_room("testing", "test"), "Check statements on given rows, without a broker"),
}


def _group(**settings: Any) -> WordOrDefault:
    return WordOrDefault("sql", default=TERMINAL, entries=ENTRIES, **settings)


sql: Final = _group(
    help="""Type SQL over streams and tables, or run statements.

Without one of the commands below it is a terminal, or with -e or -f the statements that are given, on any
server of SQL (ksqlDB's too) at --server.""",
    examples=(
        "ottla sql",
        "ottla sql -e 'SHOW STREAMS;' --json",
        "ottla sql -f statements.sql -d topic=orders",
    ),
)
