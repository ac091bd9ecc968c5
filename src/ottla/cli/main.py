"""The `ottla` command: its subcommands, by the place where each is, imported when it is called.

`ottla broker` must not wait for PySpark, nor `ottla topic list` for the broker.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.frame.entries import Entry, load_module

if TYPE_CHECKING:
    import click

    from ottla.cli.servers.broker_options import BrokerOptions

PROG: Final = "ottla"

COMMANDS: dict[str, Entry] = {
    "broker": Entry(
        "ottla.cli.servers.broker_command:broker", "Run a broker that any Kafka client can use, or several"
    ),
    "up": Entry("ottla.cli.servers.up:up", "Run a broker and all services on it together"),
    "topic": Entry("ottla.cli.cluster.topic:topic", "Create, list, describe, alter, delete and purge topics"),
    "produce": Entry("ottla.cli.records.produce:produce", "Write records from stdin or files"),
    "consume": Entry("ottla.cli.records.consume:consume", "Read records, from any place, in any form"),
    "group": Entry("ottla.cli.cluster.group:group", "List, describe, reset and delete groups of consumers"),
    "lag": Entry("ottla.cli.cluster.lag:lag", "Tell how far groups are behind, once or as a service"),
    "config": Entry(
        "ottla.cli.cluster.config:config", "Show, explain and change settings of topics, brokers and groups"
    ),
    "acl": Entry("ottla.cli.cluster.acl:acl", "List, create and delete ACLs: who may do what"),
    "user": Entry(
        "ottla.cli.cluster.user:user", "List, create, alter and delete users; hash passwords of services"
    ),
    "quota": Entry("ottla.cli.cluster.quota:quota", "Show and change how much clients may use"),
    "txn": Entry("ottla.cli.cluster.txn:txn", "List and describe transactions, abort hanging ones"),
    "token": Entry("ottla.cli.cluster.token:token", "Create, renew, end and describe delegation tokens"),
    "audit": Entry(
        "ottla.cli.audit.command:audit", "Count every message, name what is lost or doubled on the way"
    ),
    "audit-log": Entry(
        "ottla.cli.cluster.audit_log:audit_log", "Verify and list the log of logins, refusals and changes"
    ),
    "quorum": Entry("ottla.cli.cluster.quorum:quorum", "Show and change the controllers of a cluster"),
    "partition": Entry(
        "ottla.cli.cluster.partition:partition", "Move replicas between brokers, elect leaders"
    ),
    "balance": Entry(
        "ottla.cli.balance.command:balance", "Keep brokers evenly loaded: plan moves by goals, carry them out"
    ),
    "link": Entry(
        "ottla.cli.cluster.link:link", "Mirror another cluster's topics at the same offsets, move to them"
    ),
    "doctor": Entry(
        "ottla.cli.cluster.doctor:doctor", "Tell what is wrong with a cluster, how bad, and what mends it"
    ),
    "log": Entry("ottla.cli.log.command:log", "Look into the files that a broker keeps, and verify them"),
    "bench": Entry("ottla.cli.records.bench:bench", "Measure producing, consuming and latency"),
    "registry": Entry("ottla.cli.servers.registry:registry", "Run a Schema Registry on any Kafka cluster"),
    "rest": Entry("ottla.cli.servers.rest:rest", "Run a REST Proxy to any Kafka cluster"),
    "mqtt": Entry("ottla.cli.servers.mqtt:mqtt", "Let devices talk to any Kafka cluster by MQTT"),
    "connect": Entry(
        "ottla.cli.connect.command:connect",
        "Run a worker of Connect; apply, list and restart its connectors",
    ),
    "mirror": Entry(
        "ottla.cli.mirror.command:mirror", "Copy topics and groups between clusters, as MirrorMaker 2 does"
    ),
    "streams": Entry(
        "ottla.cli.servers.streams:streams",
        "Run, describe and reset applications of Streams on Spark",
    ),
    "sql": Entry("ottla.cli.sql.command:sql", "Type SQL over streams; serve, test and migrate statements"),
    "demo": Entry(
        "ottla.cli.servers.demo:demo", "Run the sample pipeline: real tweets through a broker and Spark"
    ),
    "certs": Entry("ottla.cli.certs:certs", "Make certificates for trying out TLS, and look at certificates"),
    "profile": Entry("ottla.cli.profile:profile", "Name clusters, and choose the one that commands ask"),
    "completion": Entry("ottla.cli.completion:completion", "Complete commands, topics and groups in a shell"),
}


EXAMPLES: Final = (
    "ottla broker --data ./data",
    "ottla topic create orders --partitions 3",
    "echo hello | ottla produce orders",
    "ottla consume orders --exit",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["broker"]:
        from ottla.cli.servers.broker_options import plain_options

        plain = plain_options(words[1:])
        if plain is not None:
            return _run_broker(plain)
    return _run(words)


def _run_broker(options: BrokerOptions) -> int:
    """Run a broker without click, which would be 15 of a start's 220 ms of processor time."""
    from ottla.cli.frame.errors import exit_code_of

    def run() -> int:
        code: int = load_module("ottla.cli.servers.broker", "ottla broker").run_broker(options)
        return code

    return exit_code_of(lambda: "ottla broker", run)


def _run(words: list[str]) -> int:
    from ottla.cli.frame.completing import COMPLETE_VARIABLE, complete
    from ottla.cli.frame.running import run_command

    # A name may have characters that the terminal's encoding lacks, or bytes that are no text.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        return complete(ottla(), instruction)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    return run_command(ottla(), words, PROG)


def ottla() -> click.Group:
    """The command with all its subcommands."""
    import click

    from ottla import __version__
    from ottla.cli.frame.commands import LazyGroup

    group = LazyGroup(PROG, entries=COMMANDS, help="Apache Kafka's platform in Python.", examples=EXAMPLES)
    line = f"{PROG} {__version__}"
    return click.version_option(__version__, "-V", "--version", prog_name=PROG, message=line)(group)
