"""`ottla txn abort` and `force-terminate`."""

from __future__ import annotations

import time

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.cluster.txn_partitions import partitions_to_search
from ottla.cli.cluster.txn_reading import search_options
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.transactions import (
    ActiveProducer,
    abort_in_partition,
    describe_producers,
    describe_transactions,
    find_hanging,
    force_terminate,
)
from ottla.config.errors import UsageError


@command(
    "abort",
    examples=(
        "ottla txn abort --topic orders --partition 0 --start-offset 4711",
        "ottla txn abort --hanging --topic orders",
    ),
)
@search_options
@click.option("--hanging", is_flag=True, help="All that `ottla txn find-hanging` finds with these options.")
@click.option("--start-offset", type=click.IntRange(0), help="The first offset of the transaction.")
@click.option("--producer-id", type=click.IntRange(0), help="Its producer, in place of --start-offset.")
@click.option("--producer-epoch", type=click.IntRange(0, 32_767), help="With --producer-id.")
@click.option("--coordinator-epoch", type=click.IntRange(0, 2**31 - 1), help="With --producer-id.")
@yes_option
@asks_cluster
async def abort(
    session: Session,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    max_timeout_minutes: int,
    hanging: bool,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    yes: bool,
) -> int:
    """Abort a transaction in one partition, or all hanging ones, past their coordinator.

    Only for hanging transactions: one that its coordinator knows would be torn apart. `force-terminate`
    aborts such a transaction as a whole.
    """
    named = (producer_id, producer_epoch, coordinator_epoch)
    if hanging + (start_offset is not None) + any(one is not None for one in named) != 1:
        raise UsageError("give one of --hanging, --start-offset, or the producer's id and epochs")
    if not hanging and (topic is None or partition is None):
        raise UsageError("say where: --topic and --partition")
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        places = await partitions_to_search(client, topic, partition, broker)
        if hanging:
            now_ms = time.time_ns() // 1_000_000
            found, errors = await find_hanging(client, places, now_ms, max_timeout_minutes * 60_000, broker)
            for error in errors:
                outcomes.failed(error)
        elif start_offset is not None:
            found = [await _at(client, places[0], start_offset)]
        else:
            found = [_named(places[0], *named)]
        if not found:
            session.output.note("there is no hanging transaction")
            return outcomes.exit_code
        where = str(found[0].partition) if len(found) == 1 else f"{len(found)} places"
        confirm(f"abort {len(found)} transaction{'s' if len(found) > 1 else ''} in {where}", yes)
        for one in found:
            await _abort(client, one, outcomes)
    return outcomes.exit_code


async def _at(client: ClusterRequests, place: TopicPartition, start_offset: int) -> ActiveProducer:
    """The producer whose open transaction begins at an offset of a partition. Raises ClusterError."""
    found = (await describe_producers(client, [place]))[place]
    if isinstance(found, ClusterError):
        raise found
    for one in found:
        if one.txn_start_offset == start_offset:
            return one
    begun = sorted(one.txn_start_offset for one in found if one.in_transaction)
    there = f"open ones begin at {', '.join(map(str, begun))}" if begun else "it has no open transaction"
    raise ClusterError(f"{place} has no open transaction that begins at {start_offset}; {there}")


def _named(
    place: TopicPartition, producer_id: int | None, producer_epoch: int | None, coordinator_epoch: int | None
) -> ActiveProducer:
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise UsageError("--producer-id, --producer-epoch and --coordinator-epoch go together")
    return ActiveProducer(place, producer_id, producer_epoch, -1, -1, coordinator_epoch, -1)


async def _abort(client: ClusterRequests, one: ActiveProducer, outcomes: Outcomes) -> None:
    try:
        await abort_in_partition(
            client, one.partition, one.producer_id, one.producer_epoch, one.coordinator_epoch
        )
    except ClusterError as problem:
        outcomes.failed(problem)
        return
    result = {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "producer_id": one.producer_id,
        "aborted": True,
    }
    outcomes.done(f"aborted the transaction of producer {one.producer_id} in {one.partition}", result)


@command("force-terminate", examples=("ottla txn force-terminate orders-1",))
@click.argument("transactional_id", metavar="TRANSACTIONAL-ID")
@yes_option
@asks_cluster
async def terminate(session: Session, transactional_id: str, yes: bool) -> None:
    """Abort the transaction of a transactional id, a prepared one too, and fence its producer."""
    async with cluster_client(session.access) as client:
        # to fence an id that nobody has would make it
        found = (await describe_transactions(client, [transactional_id]))[transactional_id]
        if isinstance(found, ClusterError):
            raise found
        confirm(f"abort the transaction of {transactional_id} ({found.state}) and fence its producer", yes)
        producer_id, producer_epoch = await force_terminate(client, transactional_id)
    result = {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "terminated": True,
    }
    sentence = f"{transactional_id} has no transaction any more; its producers are fenced"
    session.output.done(sentence, result, name="transactional_id")
