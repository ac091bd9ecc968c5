"""`ottla txn list`, `describe`, `describe-producers` and `find-hanging`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.cluster.txn_partitions import partitions_to_search
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_topics
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.table import Column
from ottla.client.errors import ClusterError
from ottla.client.transactions import (
    ActiveProducer,
    ListedTransaction,
    Transaction,
    describe_producers,
    describe_transactions,
    find_hanging,
    list_transactions,
)

DEFAULT_MAX_TIMEOUT_MINUTES: Final = 15
"""Kafka's default of transaction.max.timeout.ms."""
_LISTED: Final = (
    Column("transactional_id", "TRANSACTIONAL ID"),
    Column("coordinator", "COORDINATOR", right=True),
    Column("producer_id", "PRODUCER", right=True),
    Column("state", "STATE"),
)
_DESCRIBED: Final = (
    Column("transactional_id", "TRANSACTIONAL ID"),
    Column("coordinator", "COORDINATOR", right=True),
    Column("producer_id", "PRODUCER", right=True),
    Column("producer_epoch", "EPOCH", right=True),
    Column("state", "STATE"),
    Column("timeout_ms", "TIMEOUT MS", right=True),
    Column("start_ms", "START MS", right=True),
    Column("duration_ms", "DURATION MS", right=True),
    Column("partitions", "PARTITIONS"),
)
_PRODUCERS: Final = (
    Column("producer_id", "PRODUCER", right=True),
    Column("producer_epoch", "EPOCH", right=True),
    Column("coordinator_epoch", "COORDINATOR EPOCH", right=True),
    Column("last_sequence", "LAST SEQUENCE", right=True),
    Column("last_timestamp_ms", "LAST TIMESTAMP", right=True),
    Column("txn_start_offset", "TXN START OFFSET", right=True),
)
_HANGING: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    *_PRODUCERS[:3],
    Column("txn_start_offset", "START OFFSET", right=True),
    Column("last_timestamp_ms", "LAST TIMESTAMP", right=True),
    Column("duration_minutes", "MINUTES", right=True),
)


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where hanging transactions are looked for."""
    for option in reversed(
        (
            click.option("--topic", shell_complete=complete_topics, help="Only this topic."),
            click.option("--partition", type=click.IntRange(0), help="Only this partition of the topic."),
            click.option("--broker", type=int, metavar="ID", help="Ask this broker, not the leaders."),
            click.option(
                "--max-timeout",
                "max_timeout_minutes",
                type=click.IntRange(0, 10**9),
                default=DEFAULT_MAX_TIMEOUT_MINUTES,
                show_default=True,
                metavar="MINUTES",
                help="The longest that a transaction may take: transaction.max.timeout.ms of the brokers.",
            ),
        )
    ):
        function = option(function)
    return function


@command(
    "list",
    examples=(
        "ottla txn list",
        "ottla txn list --state ongoing --longer-than 60000",
        "ottla txn list --regex 'orders-.*' --json",
    ),
)
@click.option("--state", "states", multiple=True, help="Only in this state (Ongoing, …); may be repeated.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=int, help="Only of this producer; may be repeated."
)
@click.option(
    "--longer-than", type=click.IntRange(0, 2**63 - 1), metavar="MS", help="Only those that run longer."
)
@click.option("--regex", metavar="REGEX", help="Only ids that match as a whole.")
@asks_cluster
async def list_(
    session: Session,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than: int | None,
    regex: str | None,
) -> None:
    """List transactional ids.

    With --json each line is {"transactional_id", "coordinator", "producer_id", "state"}.
    """
    async with cluster_client(session.access) as client:
        found = await list_transactions(
            client, [_camel(state) for state in states], producer_ids, longer_than, regex
        )
    rows = [_listed_row(one) for one in found]
    session.output.listing(rows, _LISTED, name="transactional_id", empty="there is no such transactional id")


def _camel(state: str) -> str:
    """A state as Kafka writes it, from any case."""
    words = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
    known = (*words, "PrepareEpochFence", "PreparedTransaction")
    return {word.lower(): word for word in known}.get(state.lower(), state)


def _listed_row(one: ListedTransaction) -> dict[str, Any]:
    return {
        "transactional_id": one.transactional_id,
        "coordinator": one.coordinator,
        "producer_id": one.producer_id,
        "state": one.state,
    }


@command("describe", examples=("ottla txn describe orders-1", "ottla txn describe orders-1 orders-2 --json"))
@click.argument("transactional_ids", metavar="TRANSACTIONAL-ID...", nargs=-1, required=True)
@asks_cluster
async def describe(session: Session, transactional_ids: Sequence[str]) -> int:
    """Tell the state of transactional ids, and the partitions of their transactions.

    With --json each line is a transactional id; "partitions" is a list of {"topic", "partition"}.
    """
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        described = await describe_transactions(client, transactional_ids)
    now_ms = time.time_ns() // 1_000_000
    rows = []
    for found in described.values():
        if isinstance(found, ClusterError):
            outcomes.failed(found)
        else:
            rows.append(_described_row(found, now_ms, for_people=session.output.for_people))
    session.output.listing(rows, _DESCRIBED, name="transactional_id")
    return outcomes.exit_code


def _described_row(one: Transaction, now_ms: int, *, for_people: bool) -> dict[str, Any]:
    partitions: list[Any] = [{"topic": place.topic, "partition": place.partition} for place in one.partitions]
    return {
        "transactional_id": one.transactional_id,
        "coordinator": one.coordinator,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "start_ms": one.start_ms,
        "duration_ms": None if one.start_ms is None else now_ms - one.start_ms,
        "partitions": [str(place) for place in one.partitions] if for_people else partitions,
    }


@command(
    "describe-producers",
    examples=("ottla txn describe-producers --topic orders --partition 0",),
)
@click.option("--topic", required=True, shell_complete=complete_topics, help="The topic.")
@click.option("--partition", type=click.IntRange(0), required=True, help="The partition.")
@click.option("--broker", type=int, metavar="ID", help="Ask this broker's replica, not the leader.")
@asks_cluster
async def producers(session: Session, topic: str, partition: int, broker: int | None) -> None:
    """Tell the producers that a partition knows, idempotent ones and those of transactions."""
    async with cluster_client(session.access) as client:
        (place,) = await partitions_to_search(client, topic, partition, None)
        found = (await describe_producers(client, [place], broker))[place]
    if isinstance(found, ClusterError):
        raise found
    rows = [producer_row(one) for one in sorted(found, key=lambda one: one.producer_id)]
    session.output.listing(rows, _PRODUCERS, name="producer_id", empty=f"{place} knows no producer")


def producer_row(one: ActiveProducer) -> dict[str, Any]:
    """A producer of a partition; null for what there is not."""
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": _known(one.coordinator_epoch),
        "last_sequence": _known(one.last_sequence),
        "last_timestamp_ms": _known(one.last_timestamp_ms),
        "txn_start_offset": _known(one.txn_start_offset),
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None


@command(
    "find-hanging",
    examples=("ottla txn find-hanging", "ottla txn find-hanging --topic orders --max-timeout 60"),
)
@search_options
@asks_cluster
async def find_hanging_(
    session: Session, topic: str | None, partition: int | None, broker: int | None, max_timeout_minutes: int
) -> int:
    """Find transactions that no coordinator will end: readers of committed records wait for them for ever.

    Without --topic and --broker all partitions of the cluster are looked at.
    """
    outcomes = Outcomes(session.output)
    now_ms = time.time_ns() // 1_000_000
    async with cluster_client(session.access) as client:
        places = await partitions_to_search(client, topic, partition, broker)
        found, errors = await find_hanging(client, places, now_ms, max_timeout_minutes * 60_000, broker)
    for error in errors:
        outcomes.failed(error)
    rows = [hanging_row(one, now_ms) for one in found]
    session.output.listing(rows, _HANGING, name="producer_id", empty="there is no hanging transaction")
    return ExitCode(outcomes.exit_code)


def hanging_row(one: ActiveProducer, now_ms: int) -> dict[str, Any]:
    """A hanging transaction."""
    return producer_row(one) | {"duration_minutes": (now_ms - one.last_timestamp_ms) // 60_000}
