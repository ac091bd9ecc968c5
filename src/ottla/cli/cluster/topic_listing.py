"""`ottla topic list` and `describe`: all topics or some, or the partitions that are in trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Final

import click

from ottla.cli.cluster import topic_rows
from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.cluster.topic_choice import (
    MIN_ISR,
    chosen_topics,
    if_exists_option,
    in_trouble,
    key_of,
    names_argument,
    partitions_of,
    regex_option,
)
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.table import Column
from ottla.client.admin.configs import ConfigSource, Resource, ResourceType, describe_configs
from ottla.client.admin.descriptions import DescribedTopic, describe_topics, moving_replicas
from ottla.client.admin.log_sizes import LogSizes, log_sizes
from ottla.client.admin.partition_offsets import EARLIEST, LATEST, list_offsets
from ottla.client.admin.topic_state import TopicState, Trouble
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.protocol.messages.metadata_response import MetadataResponseTopic

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OFFSET_SECONDS: Final = 5.0
"""How long a description waits for the offsets of a partition whose leader moves."""


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that look for topics, or partitions, in trouble."""
    options: tuple[Decorator, ...] = (
        click.option("--under-replicated", is_flag=True, help="Only where replicas are not in sync."),
        click.option("--unavailable", is_flag=True, help="Only where no live broker leads."),
        click.option("--under-min-isr", is_flag=True, help=f"Only where fewer are in sync than {MIN_ISR}."),
        click.option("--at-min-isr", is_flag=True, help=f"Only where as many are in sync as {MIN_ISR}."),
        click.option("--exclude-internal", is_flag=True, help="Leave out the topics of Kafka itself."),
    )
    return reduce(lambda decorated, option: option(decorated), reversed(options), function)


def _troubles(options: dict[str, Any]) -> list[Trouble]:
    chosen = {
        Trouble.UNDER_REPLICATED: options["under_replicated"],
        Trouble.UNAVAILABLE: options["unavailable"],
        Trouble.UNDER_MIN_ISR: options["under_min_isr"],
        Trouble.AT_MIN_ISR: options["at_min_isr"],
    }
    return [trouble for trouble, wanted in chosen.items() if wanted]


# -- list ----------------------------------------------------------------------------------------------------


@command(
    "list",
    examples=(
        "ottla topic list",
        "ottla topic list 'orders-*' --json",
        "ottla topic list --under-replicated --exclude-internal",
    ),
)
@names_argument
@regex_option
@_filters
@click.option("--overrides", is_flag=True, help="Only topics with settings of their own.")
@click.option("--sizes", is_flag=True, help="Also tell how large the topics are.")
@asks_cluster
async def list_topics(
    session: Session,
    /,
    names: tuple[str, ...],
    regex: str | None,
    overrides: bool,
    sizes: bool,
    **options: Any,
) -> None:
    """List topics: all, or those of some names.

    With --json an object a topic: name, topic_id, internal, partitions, replication_factor, under_replicated
    and unavailable (numbers of partitions), and with --sizes size_bytes (of the leaders' logs).
    """
    async with cluster_client(session.access) as requests:
        found = await chosen_topics(requests, names, regex, internal=not options["exclude_internal"])
        troubles = _troubles(options)
        if troubles:
            found = [topic for topic, partitions in await in_trouble(requests, found, troubles) if partitions]
        if overrides:
            found = await _with_overrides(requests, found)
        brokers = (await requests.cluster()).brokers
        moving = await moving_replicas(requests) if _any_behind(found) else {}
        rows = [topic_rows.topic_row(one, brokers, moving) for one in found]
        if sizes:
            await _add_sizes(requests, rows, found, session)
    columns = (*topic_rows.LISTED, topic_rows.SIZE) if sizes else topic_rows.LISTED
    session.output.listing(rows, columns, empty="no topics")


def _any_behind(topics: Iterable[TopicState]) -> bool:
    return any(len(one.isr_nodes) < len(one.replica_nodes) for topic in topics for one in topic.partitions)


async def _with_overrides(
    requests: ClusterRequests, topics: Sequence[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    resources = [Resource(ResourceType.TOPIC, one.name or "") for one in topics]
    configs = await describe_configs(requests, resources, without_defaults=True)
    having = {
        resource.name
        for resource, entries in configs.items()
        if not isinstance(entries, ClusterError) and any(one.source is ConfigSource.TOPIC for one in entries)
    }
    return [one for one in topics if one.name in having]


async def _add_sizes(
    requests: ClusterRequests, rows: Sequence[dict[str, Any]], topics: Sequence[TopicState], session: Session
) -> None:
    found = await log_sizes(requests)
    _warn_of_sizes(session, found)
    for row, one in zip(rows, topics, strict=True):
        known = [
            found.of(TopicPartition(row["name"], partition.partition_index), partition.leader_id)
            for partition in one.partitions
        ]
        sizes = [size for size in known if size is not None]
        row["size_bytes"] = sum(sizes) if sizes else None


def _warn_of_sizes(session: Session, found: LogSizes) -> None:
    if found.problems:
        session.output.warn(f"not all sizes are known: {found.problems[0]}")


# -- describe ------------------------------------------------------------------------------------------------


@command(
    "describe",
    examples=(
        "ottla topic describe orders",
        "ottla topic describe orders --offsets --json",
        "ottla topic describe --under-replicated",
    ),
)
@names_argument
@regex_option
@_filters
@click.option("--offsets", is_flag=True, help="Also tell the start and end of each partition.")
@if_exists_option
@asks_cluster
async def describe(
    session: Session,
    /,
    names: tuple[str, ...],
    regex: str | None,
    offsets: bool,
    if_exists: bool,
    **options: Any,
) -> int:
    """Describe topics: partitions, leaders, replicas in sync, sizes, settings that are not the default.

    With --under-replicated and its like only partitions in that state are told, one a row. With --json an
    object a topic: name, topic_id, internal, partition_count, replication_factor, size_bytes (of the leaders'
    logs), replicas_size_bytes, configs, and partitions, a list of: partition, leader, leader_epoch, replicas,
    isr, offline, elr, last_known_elr, size_bytes, and with --offsets start_offset and end_offset.
    """
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        listed = await chosen_topics(
            requests, names, regex, outcomes, internal=not options["exclude_internal"], if_exists=if_exists
        )
        chosen = [one.name or "" for one in listed]
        described = await describe_topics(requests, chosen)
        topics = []
        for one in described.values():
            if isinstance(one, ClusterError):
                outcomes.failed(one)
            else:
                topics.append(one)
        troubles = _troubles(options)
        if troubles:
            await _tell_troubles(session, requests, topics, troubles, offsets)
        elif session.output.is_quiet:
            session.output.listing({"name": one.name} for one in topics)
        else:
            await _tell_topics(session, requests, topics, offsets)
    return outcomes.exit_code


async def _tell_topics(
    session: Session, /, requests: ClusterRequests, topics: Sequence[DescribedTopic], offsets: bool
) -> None:
    partitions = [key_of(one, partition) for one in topics for partition in one.partitions]
    sizes = await log_sizes(requests, partitions) if partitions else LogSizes()
    _warn_of_sizes(session, sizes)
    starts, ends = await _offsets(requests, topics, offsets)
    resources = {one.name or "": Resource(ResourceType.TOPIC, one.name or "") for one in topics}
    configs = await describe_configs(requests, resources.values(), without_defaults=True)
    for number, one in enumerate(topics):
        name = one.name or ""
        rows = [
            topic_rows.partition_row(name, partition, sizes, starts, ends) for partition in partitions_of(one)
        ]
        entries = configs.get(resources[name])
        if isinstance(entries, ClusterError):
            session.output.warn(f"the settings are not known: {entries}")
            entries = None
        found = topic_rows.description(one, rows, entries, sizes)
        if not session.output.for_people:
            session.output.facts(found)
            continue
        if number:
            session.output.say("")
        session.output.facts(topic_rows.described_facts(found))
        session.output.say("")
        session.output.listing(rows, _columns(rows, offsets))


async def _tell_troubles(
    session: Session,
    /,
    requests: ClusterRequests,
    topics: Sequence[DescribedTopic],
    troubles: Sequence[Trouble],
    offsets: bool,
) -> None:
    starts, ends = await _offsets(requests, topics, offsets)
    rows = [
        {"topic": one.name, **topic_rows.partition_row(one.name or "", partition, None, starts, ends)}
        for one, partitions in await in_trouble(requests, topics, troubles)
        for partition in partitions
    ]
    columns = (Column("topic"), *_columns(rows, offsets, sizes=False))
    session.output.listing(rows, columns, name="topic", empty="no partition is in that state")


def _columns(rows: Sequence[dict[str, Any]], offsets: bool, *, sizes: bool = True) -> tuple[Any, ...]:
    columns: tuple[Any, ...] = topic_rows.PARTITION
    if any(row["elr"] or row["last_known_elr"] for row in rows):
        columns += topic_rows.ELIGIBLE
    if sizes:
        columns += (topic_rows.SIZE,)
    return columns + topic_rows.OFFSETS if offsets else columns


async def _offsets(
    requests: ClusterRequests, topics: Sequence[TopicState], wanted: bool
) -> tuple[topic_rows.Offsets | None, topic_rows.Offsets | None]:
    """The start and end of every partition that has a leader."""
    if not wanted:
        return None, None
    led = [key_of(one, each) for one in topics for each in one.partitions if each.leader_id >= 0]
    starts = await list_offsets(requests, dict.fromkeys(led, EARLIEST), seconds=OFFSET_SECONDS)
    ends = await list_offsets(requests, dict.fromkeys(led, LATEST), seconds=OFFSET_SECONDS)
    return starts, ends
