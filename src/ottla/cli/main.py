"""The `ottla` command: its subcommands, by the place where each is, imported when it is called.

`ottla broker` must not wait for PySpark, nor `ottla topic list` for the broker.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from ottla.cli.frame.commands import Entry, LazyGroup
from ottla.cli.frame.running import run_command

PROG: Final = "ottla"
COMPLETE_VARIABLE: Final = "_OTTLA_COMPLETE"

COMMANDS: dict[str, Entry] = {
    "broker": Entry("ottla.cli.broker:main", "run a broker that any Kafka client can use, or several"),
    "up": Entry("ottla.cli.up:main", "run the platform on this machine: broker, Schema Registry, REST Proxy"),
    "demo": Entry("ottla.cli.demo:main", "run the sample pipeline: real tweets through a broker and Spark"),
    "topic": Entry("ottla.cli.cluster.topic:topic", "create, list, describe, alter, delete and purge topics"),
    "produce": Entry("ottla.cli.records.produce:produce", "write records from files or stdin"),
    "consume": Entry("ottla.cli.records.consume:consume", "read records, from any place, in any form"),
    "group": Entry("ottla.cli.cluster.group:group", "list, describe, reset and delete groups of consumers"),
    "config": Entry(
        "ottla.cli.cluster.config:config", "show, explain and change settings of topics, brokers and groups"
    ),
    "txn": Entry("ottla.cli.cluster.txn:txn", "list and describe transactions, abort hanging ones"),
    "quorum": Entry("ottla.cli.quorum:main", "show and change the controllers of a cluster"),
    "partition": Entry("ottla.cli.partition:main", "move replicas between brokers, elect leaders"),
    "log": Entry("ottla.cli.log.command:log", "look into the files that a broker keeps, and verify them"),
    "bench": Entry("ottla.cli.records.bench:bench", "measure producing, consuming and latency"),
    "registry": Entry("ottla.cli.registry:main", "run a Schema Registry on any Kafka cluster"),
    "rest": Entry("ottla.cli.rest:main", "run a REST Proxy to any Kafka cluster"),
    "streams": Entry(
        "ottla.cli.streams:main", "run, describe and reset applications of the Streams DSL on Spark"
    ),
    "profile": Entry("ottla.cli.profile:profile", "name clusters, and choose the one that commands ask"),
    "completion": Entry("ottla.cli.completion:completion", "complete commands, topics and groups in a shell"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(ottla(), {}, PROG, COMPLETE_VARIABLE, instruction)
    return run_command(ottla(), ["--help", *words[1:]] if words[:1] == ["help"] else words, PROG)


def ottla() -> LazyGroup:
    """The command with all its subcommands."""
    import click

    from ottla import __version__

    group = LazyGroup(PROG, entries=COMMANDS, help="Apache Kafka's platform in Python.")
    group.params.append(
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help="Show the version.",
            callback=lambda ctx, _, given: _tell_version(ctx, f"{PROG} {__version__}") if given else None,
        )
    )
    return group


def _tell_version(ctx: object, line: str) -> None:
    import click

    print(line)
    assert isinstance(ctx, click.Context)
    ctx.exit()
