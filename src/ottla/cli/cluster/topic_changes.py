"""`ottla topic create`, `alter`, `delete` and `purge`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.cluster.topic_choice import (
    chosen_topics,
    confirm_pattern,
    counted,
    if_exists_option,
    pages,
    regex_option,
    some_names,
    validate_only_option,
)
from ottla.cli.cluster.topic_rows import id_text
from ottla.cli.cluster.topic_words import Place, assignment_of, pairs_of, place_of
from ottla.cli.frame.cluster import Session, asks_cluster, asks_cluster_without_config
from ottla.cli.frame.commands import command
from ottla.cli.frame.confirming import yes_option
from ottla.client.admin import topics as admin
from ottla.client.admin.configs import Change, Operation, Resource, ResourceType, alter_configs, settled
from ottla.client.admin.partition_offsets import (
    ALL_RECORDS,
    EARLIEST,
    NO_OFFSET,
    FoundOffset,
    delete_records,
    list_offsets,
)
from ottla.client.admin.topic_state import TopicState
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.config.errors import UsageError
from ottla.protocol.errors import ErrorCode

START_SECONDS: Final = 5.0
"""How long a purge waits for the first offset of a partition whose leader moves; it only counts with it."""

_configs = click.option(
    "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic; may be repeated."
)
_assignment = click.option(
    "--replica-assignment",
    metavar="ID:ID,…",
    help="The brokers of each partition, the preferred leader first: 1:2,2:3 for two partitions.",
)


# -- create --------------------------------------------------------------------------------------------------


@command(
    "create",
    examples=(
        "ottla topic create orders --partitions 12",
        "ottla topic create orders payments --config cleanup.policy=compact --if-not-exists",
        "ottla topic create orders --replica-assignment 1:2,2:3,3:1",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--partitions", type=click.IntRange(1, 2**31 - 1), metavar="N", help="[default: the broker's]")
@click.option(
    "--replication-factor", type=click.IntRange(1, 32_767), metavar="N", help="[default: the broker's]"
)
@_assignment
@_configs
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is no error.")
@validate_only_option
@asks_cluster_without_config
async def create(
    session: Session,
    /,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
) -> int:
    """Create topics.

    With --json an object a topic: name, created, and of a new one topic_id, partitions, replication_factor.
    """
    assignment = [] if replica_assignment is None else assignment_of(replica_assignment)
    if assignment and (partitions is not None or replication_factor is not None):
        raise UsageError(
            "--replica-assignment says how many partitions and replicas there are: leave out both"
        )
    new = [
        admin.NewTopic(
            name,
            admin.BROKERS_CHOICE if partitions is None else partitions,
            admin.BROKERS_CHOICE if replication_factor is None else replication_factor,
            dict(enumerate(assignment)),
            pairs_of("--config", configs),
        )
        for name in dict.fromkeys(names)
    ]
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        for page in pages(new):
            created = await admin.create_topics(requests, page, validate_only=validate_only)
            if not validate_only:
                await admin.settled(
                    requests,
                    {
                        one.name: max(one.partitions, 1)
                        for one in created.values()
                        if not isinstance(one, ClusterError)
                    },
                )
            for name, one in created.items():
                _tell_created(outcomes, name, one, if_not_exists, validate_only)
    return outcomes.exit_code


def _tell_created(
    outcomes: Outcomes,
    name: str,
    created: admin.CreatedTopic | ClusterError,
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    if isinstance(created, ClusterError):
        if created.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            outcomes.failed(created)
        elif if_not_exists:
            outcomes.done(f"topic {name} exists already", {"name": name, "created": False})
        else:
            outcomes.failed(f"topic {name} exists already; --if-not-exists makes that no error")
        return
    result: dict[str, Any] = {"name": name, "created": not validate_only}
    if not validate_only:
        result["topic_id"] = id_text(created.topic_id)
    shape = ""
    if created.partitions >= 0:
        result |= {"partitions": created.partitions, "replication_factor": created.replication_factor}
        shape = f" with {counted(created.partitions, 'partition')}"
        if created.replication_factor > 1:
            shape += f" of {created.replication_factor} replicas"
    verb = "could be created" if validate_only else "is created"
    outcomes.done(f"topic {name} {verb}{shape}", result)


# -- alter ---------------------------------------------------------------------------------------------------


@command(
    "alter",
    examples=(
        "ottla topic alter orders --partitions 24",
        "ottla topic alter 'orders-*' --config retention.ms=86400000 --delete-config segment.ms",
    ),
)
@some_names
@regex_option
@click.option(
    "--partitions", type=click.IntRange(1, 2**31 - 1), metavar="N", help="How many there are to be."
)
@_assignment
@_configs
@click.option(
    "--delete-config", "unset", multiple=True, metavar="KEY", help="A setting to give up; may be repeated."
)
@if_exists_option
@validate_only_option
@asks_cluster_without_config
async def alter(
    session: Session,
    /,
    names: tuple[str, ...],
    regex: str | None,
    partitions: int | None,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    unset: tuple[str, ...],
    if_exists: bool,
    validate_only: bool,
) -> int:
    """Give topics more partitions, or other settings.

    --replica-assignment lists all partitions, those that are there included. With --json an object a topic:
    name, altered.
    """
    assignment = None if replica_assignment is None else assignment_of(replica_assignment)
    pairs = pairs_of("--config", configs)
    changes = [Change(name, Operation.SET, value) for name, value in pairs.items()]
    changes += [Change(name, Operation.DELETE) for name in dict.fromkeys(unset)]
    if both := pairs.keys() & set(unset):
        raise UsageError(f"--config and --delete-config both name {min(both)}")
    if assignment is not None and partitions is None:
        partitions = len(assignment)
    if partitions is None and not changes:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        topics = await chosen_topics(requests, names, regex, outcomes, internal=False, if_exists=if_exists)
        problems: dict[str, ClusterError] = {}
        if changes:
            problems = await _alter_configs(requests, topics, changes, validate_only)
        left = [one for one in topics if one.name not in problems]
        if partitions is not None:
            problems |= await _grow(requests, left, partitions, assignment, validate_only)
        for one in topics:
            name = one.name or ""
            if name in problems:
                outcomes.failed(problems[name])
            else:
                verb = "could be altered" if validate_only else "is altered"
                outcomes.done(f"topic {name} {verb}", {"name": name, "altered": not validate_only})
    return outcomes.exit_code


async def _alter_configs(
    requests: ClusterRequests, topics: Sequence[TopicState], changes: Sequence[Change], validate_only: bool
) -> dict[str, ClusterError]:
    resources = [Resource(ResourceType.TOPIC, one.name or "") for one in topics]
    done = await alter_configs(requests, dict.fromkeys(resources, changes), validate_only=validate_only)
    if not validate_only:
        made = [resource for resource, problem in done.items() if problem is None]
        await settled(requests, dict.fromkeys(made, changes))
    return {resource.name: problem for resource, problem in done.items() if problem is not None}


async def _grow(
    requests: ClusterRequests,
    topics: Sequence[TopicState],
    partitions: int,
    assignment: Sequence[Sequence[int]] | None,
    validate_only: bool,
) -> dict[str, ClusterError]:
    """Topics of as many partitions now are asked about in one request: their new ones are the same."""
    by_count: dict[int, list[str]] = {}
    for one in topics:
        by_count.setdefault(len(one.partitions), []).append(one.name or "")
    problems: dict[str, ClusterError] = {}
    for count, names in by_count.items():
        new = None if assignment is None else assignment[count:]
        for page in pages(names):
            done = await admin.grow_topics(
                requests, dict.fromkeys(page, partitions), new, validate_only=validate_only
            )
            problems |= {name: problem for name, problem in done.items() if problem is not None}
            if not validate_only:
                await admin.settled(requests, dict.fromkeys(set(page) - problems.keys(), partitions))
    return problems


# -- delete --------------------------------------------------------------------------------------------------


@command(
    "delete",
    examples=("ottla topic delete orders", "ottla topic delete 'test-*' --yes"),
)
@some_names
@regex_option
@if_exists_option
@yes_option
@asks_cluster
async def delete(
    session: Session, /, names: tuple[str, ...], regex: str | None, if_exists: bool, yes: bool
) -> int:
    """Delete topics, with all their records. Asks first where topics are named by a pattern.

    With --json an object a topic: name, deleted.
    """
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        topics = await chosen_topics(requests, names, regex, outcomes, internal=False, if_exists=if_exists)
        confirm_pattern("delete", topics, names, regex, yes)
        with session.output.progress("deleting topics", len(topics), "topics") as bar:
            for page in pages([one.name or "" for one in topics]):
                done = await admin.delete_topics(requests, page)
                gone = [name for name, problem in done.items() if problem is None]
                await admin.settled(requests, dict.fromkeys(gone, 0))
                bar.advance(len(page))
                for name, problem in done.items():
                    if problem is None:
                        outcomes.done(f"topic {name} is deleted", {"name": name, "deleted": True})
                    elif not (if_exists and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                        outcomes.failed(problem)
    return outcomes.exit_code


# -- purge ---------------------------------------------------------------------------------------------------


@command(
    "purge",
    examples=(
        "ottla topic purge orders",
        "ottla topic purge orders --before @-7d",
        "ottla topic purge orders --partition 3 --before 120000",
    ),
)
@some_names
@regex_option
@click.option(
    "--before",
    metavar="OFFSET|@TIME",
    help="Keep records from there on: an offset, or a time as @2026-01-31T12:00 (UTC) or @-2h. [default: the "
    "end]",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    metavar="N",
    help="Only this partition; may be repeated. [default: all]",
)
@if_exists_option
@yes_option
@asks_cluster
async def purge(
    session: Session,
    /,
    names: tuple[str, ...],
    regex: str | None,
    before: str | None,
    partitions: tuple[int, ...],
    if_exists: bool,
    yes: bool,
) -> int:
    """Delete the records of topics, all or those before a place; the topics stay.

    Asks first where topics are named by a pattern. With --json an object a partition: name, partition,
    start_offset (the first that is left), deleted (the offsets that are gone).
    """
    place = None if before is None else place_of("--before", before, datetime.now(UTC))
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        topics = await chosen_topics(requests, names, regex, outcomes, internal=False, if_exists=if_exists)
        keys = []
        for one in topics:
            there = {each.partition_index for each in one.partitions}
            for number in sorted(set(partitions) - there):
                outcomes.failed(f"topic {one.name} has no partition {number}; it has {len(there)}")
            wanted = sorted(there & set(partitions) if partitions else there)
            keys += [TopicPartition(one.name or "", number) for number in wanted]
        confirm_pattern("purge", topics, names, regex, yes)
        await _purge(requests, outcomes, keys, place)
    return outcomes.exit_code


async def _purge(
    requests: ClusterRequests, outcomes: Outcomes, keys: Sequence[TopicPartition], place: Place | None
) -> None:
    starts = await list_offsets(requests, dict.fromkeys(keys, EARLIEST), seconds=START_SECONDS)
    before, problems = await _ends(requests, keys, place)
    purged = await delete_records(requests, before)
    for key in keys:
        found, start = purged.get(key, problems.get(key)), starts[key]
        if not isinstance(found, int):
            outcomes.failed(found or f"{key}: not purged")
            continue
        gone = max(0, found - start.offset) if isinstance(start, FoundOffset) else None
        result = {"name": key.topic, "partition": key.partition, "start_offset": found, "deleted": gone}
        outcomes.done(f"{key} begins at offset {found} now", result)


async def _ends(
    requests: ClusterRequests, keys: Sequence[TopicPartition], place: Place | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, ClusterError]]:
    """The offset before which to delete in each partition, and the partitions where it is not known."""
    if place is None or place.time_ms is None:
        offset = ALL_RECORDS if place is None or place.offset is None else place.offset
        return dict.fromkeys(keys, offset), {}
    found = await list_offsets(requests, dict.fromkeys(keys, place.time_ms))
    ends: dict[TopicPartition, int] = {}
    problems: dict[TopicPartition, ClusterError] = {}
    for key, one in found.items():
        if isinstance(one, ClusterError):
            problems[key] = one
        else:
            ends[key] = ALL_RECORDS if one.offset == NO_OFFSET else one.offset
    return ends, problems
