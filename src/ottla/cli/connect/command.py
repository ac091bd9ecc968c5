"""`ottla connect`: a worker of Connect; or, with one of its words, a question to the workers that run."""

from __future__ import annotations

from typing import Any, Final

from ottla.cli.frame.commands import WordOrDefault
from ottla.cli.frame.entries import Entry

WORKER: Final = "worker"
"""The word that stands for the worker itself, which needs none."""


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


def _group(**settings: Any) -> WordOrDefault:
    return WordOrDefault("connect", default=WORKER, entries=ENTRIES, **settings)


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
