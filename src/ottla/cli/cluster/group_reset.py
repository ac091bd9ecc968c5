"""`ottla group reset`: moves offsets of groups without members, as planned by `client/groups/reset_plan`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.group_changes import delete_internal_topics, internal_topics_of
from ottla.cli.cluster.group_describing import chosen_types
from ottla.cli.cluster.group_words import chosen_partitions, reset_of, topic_choice
from ottla.cli.cluster.outcomes import Outcomes, no_such_topic
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.table import Column
from ottla.client.admin.partition_offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.groups.changes import alter_share_offsets, commit_offsets
from ottla.client.groups.describing import describe_groups
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType
from ottla.client.groups.offsets import group_offsets
from ottla.client.groups.offsets_file import (
    MAX_FILE_BYTES,
    GroupedOffsets,
    OffsetsFileError,
    read_offsets,
    write_offsets,
)
from ottla.client.groups.reset_plan import (
    LogOffsets,
    PlannedOffset,
    Reset,
    ResetImpossible,
    ResetKind,
    plan_reset,
)
from ottla.config.errors import UsageError, UserError
from ottla.protocol.errors import ErrorCode

PLANNED: Final = (
    Column("group", "GROUP"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    Column("before", "BEFORE", right=True),
    Column("offset", "NEW OFFSET", right=True),
    Column("note", "NOTE"),
)


@dataclass(frozen=True, slots=True)
class _Task:
    """What the command line asks for."""

    reset: Reset | None
    file: Path | None
    topics: Mapping[str, tuple[int, ...] | None]
    all_topics: bool
    new_type: GroupType


@command(
    "reset",
    examples=(
        "ottla group reset orders --to earliest --all-topics",
        "ottla group reset orders --to @2026-01-31T12:00 --topic payments:0,3 --execute",
        "ottla group reset orders --to current --all-topics --export orders.csv",
        "ottla group reset orders --from-file orders.csv --execute",
    ),
)
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups of the cluster.")
@click.option(
    "--to",
    metavar="PLACE",
    help="earliest, latest, current, an offset, or a time after @: @2026-01-31T12:00, @-2h.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move the offsets by N records, back if negative.")
@click.option("--by-duration", metavar="PT2H", help="To the first record that is at most so old.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="To the offsets of a CSV file of --export, or of kafka-consumer-groups.sh.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,2,5-7]",
    shell_complete=complete_topics,
    help="Only this topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All partitions that the group has an offset for.")
@click.option(
    "--type",
    "new_type",
    type=click.Choice(("consumer", "share")),
    default="consumer",
    help="The type of a group that does not exist yet.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write the new offsets as CSV; `-` is stdout.",
)
@click.option(
    "--internal-topics",
    is_flag=True,
    help="Delete the internal topics of streams groups as well, which have the state of what was read.",
)
@click.option("--execute", is_flag=True, help="Do it. Without it nothing is changed.")
@asks_cluster
async def reset(
    session: Session,
    groups: Sequence[str],
    everything: bool,
    to: str | None,
    shift_by: int | None,
    by_duration: str | None,
    from_file: Path | None,
    topics: Sequence[str],
    all_topics: bool,
    new_type: str,
    export: Path | None,
    internal_topics: bool,
    execute: bool,
) -> int:
    """Move the offsets of groups; without --execute only tell how.

    The groups must have no members: stop their consumers first. With --json each line is a partition:
    {"group", "topic", "partition", "before", "offset", "note", "executed"}.
    """
    chosen = reset_of(to, shift_by, by_duration, datetime.now(UTC))
    if (chosen is None) == (from_file is None):
        raise UsageError("say where the offsets go: one of --to, --shift-by, --by-duration, --from-file")
    task = _Task(chosen, from_file, topic_choice(topics), all_topics, GroupType(new_type))
    if from_file is None and bool(task.topics) == all_topics:
        raise UsageError("say which partitions: --topic TOPIC, or --all-topics for those with an offset")
    if from_file is not None and (topics or all_topics):
        raise UsageError("--from-file names the partitions itself; leave out --topic and --all-topics")
    outcomes = Outcomes(session.output)
    plans: dict[str, list[PlannedOffset]] = {}
    topics_of: dict[str, list[str]] = {}
    async with cluster_client(session.access) as client:
        types = await _types(client, groups, everything, task, outcomes)
        file = None if from_file is None else _offsets_of_file(from_file, list(types))
        free = await _without_members(client, types, topics_of, outcomes)
        for group_id, group_type in free.items():
            try:
                plans[group_id] = await _plan(client, group_id, group_type, task, file)
            except (ResetImpossible, ClusterError) as problem:
                outcomes.failed(f"group {group_id}: {problem}")
        if execute:
            for group_id in list(plans):
                await _execute(client, group_id, free[group_id], plans, outcomes)
                if internal_topics and plans[group_id]:
                    await delete_internal_topics(client, topics_of.get(group_id, ()), outcomes)
    _tell(session, plans, export, execute, with_groups=len(types) != 1)
    return outcomes.exit_code


async def _types(
    client: ClusterRequests, words: Sequence[str], everything: bool, task: _Task, outcomes: Outcomes
) -> dict[str, GroupType]:
    """The groups and their types. One that is not there yet may get offsets of topics that are named."""
    if not words or everything or not (task.topics or task.file):
        return await chosen_types(client, words, everything, outcomes)
    known = {one.group_id: one.type for one in await list_groups(client)}
    types = {word: known[word] for word in words if word in known}
    return types | {word: task.new_type for word in words if word not in known}


def _offsets_of_file(file: Path, groups: list[str]) -> GroupedOffsets:
    with file.open("rb") as source:
        raw = source.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise UserError(f"{file} has more than {MAX_FILE_BYTES} bytes: it is no file of offsets")
    try:
        return read_offsets(raw.decode(), groups)
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text in UTF-8") from None
    except OffsetsFileError as problem:
        raise UserError(f"{file}: {problem}") from None


async def _without_members(
    client: ClusterRequests,
    types: Mapping[str, GroupType],
    topics_of: dict[str, list[str]],
    outcomes: Outcomes,
) -> dict[str, GroupType]:
    """The groups that have no members, or do not exist yet; the others are told.

    topics_of: gets the internal topics of streams groups.
    """
    free = {}
    for group_id, found in (await describe_groups(client, types)).items():
        if isinstance(found, ClusterError):
            if found.code != ErrorCode.GROUP_ID_NOT_FOUND:
                outcomes.failed(found)
                continue
        elif found.is_active:
            outcomes.failed(
                f"group {group_id} has members ({found.state}): its offsets can be "
                "moved when they have stopped; `ottla group describe --members` tells who they are"
            )
            continue
        else:
            topics_of[group_id] = internal_topics_of(found)
        free[group_id] = types[group_id]
    return free


async def _plan(
    client: ClusterRequests, group_id: str, group_type: GroupType, task: _Task, file: GroupedOffsets | None
) -> list[PlannedOffset]:
    found = (await group_offsets(client, {group_id: group_type}))[group_id]
    if isinstance(found, ClusterError):
        if found.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise found
        found = {}
    before = {place: one.offset for place, one in found.items() if one.offset is not None}
    if file is not None:
        if group_id not in file:
            raise ResetImpossible("the file has no offsets of it")
        reset = Reset(ResetKind.FILE, offsets=file[group_id])
        partitions: Iterable[TopicPartition] = file[group_id]
    else:
        assert task.reset is not None
        reset = task.reset
        partitions = found if task.all_topics else await _chosen(client, task.topics)
    wanted = list(partitions)
    return plan_reset(reset, wanted, before, await _logs(client, reset, wanted))


async def _chosen(
    client: ClusterRequests, topics: Mapping[str, tuple[int, ...] | None]
) -> list[TopicPartition]:
    counts: dict[str, int] = {}
    for topic in await client.topics(topics):
        if topic.error_code:
            raise no_such_topic(topic.name or "", [one.name or "" for one in await client.topics()])
        counts[topic.name or ""] = len(topic.partitions)
    return chosen_partitions(topics, counts)


async def _logs(
    client: ClusterRequests, reset: Reset, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LogOffsets]:
    """The starts and ends of partitions, and their offsets at the time of the reset. Raises ClusterError."""

    async def at(timestamp_ms: int) -> dict[TopicPartition, int]:
        offsets = {}
        for place, found in (await list_offsets(client, dict.fromkeys(partitions, timestamp_ms))).items():
            if not isinstance(found, FoundOffset):
                raise found
            offsets[place] = found.offset
        return offsets

    starts, ends = await at(EARLIEST), await at(LATEST)
    times = await at(reset.value) if reset.kind is ResetKind.TIME else {}
    return {
        place: LogOffsets(
            starts[place], ends[place], offset if (offset := times.get(place, -1)) >= 0 else None
        )
        for place in partitions
    }


async def _execute(
    client: ClusterRequests,
    group_id: str,
    group_type: GroupType,
    plans: dict[str, list[PlannedOffset]],
    outcomes: Outcomes,
) -> None:
    """Set a group's planned offsets; those that were refused are told, and taken out of the plan."""
    offsets = {one.place: one.offset for one in plans[group_id]}
    change = alter_share_offsets if group_type is GroupType.SHARE else commit_offsets
    try:
        results = await change(client, group_id, offsets) if offsets else {}
    except ClusterError as problem:
        results = dict.fromkeys(offsets, problem)
        outcomes.failed(problem)
    else:
        for place, error in results.items():
            if error is not None:
                outcomes.failed(f"{place}: {error}")
    plans[group_id] = [one for one in plans[group_id] if results.get(one.place) is None]


def _tell(
    session: Session,
    plans: Mapping[str, list[PlannedOffset]],
    export: Path | None,
    execute: bool,
    *,
    with_groups: bool,
) -> None:
    output = session.output
    if export is not None:
        text = write_offsets(
            {group: {one.place: one.offset for one in plan} for group, plan in plans.items()},
            with_groups=with_groups,
        )
        if str(export) == "-":
            sys.stdout.write(text)
            return
        export.write_text(text, encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {
            "group": group,
            "topic": one.topic,
            "partition": one.partition,
            "before": one.before,
            "offset": one.offset,
            "note": one.note,
            "executed": execute,
        }
        for group, plan in plans.items()
        for one in plan
    ]
    if plans:
        output.listing(rows, PLANNED, name="group", empty="there is no partition to move")
    if rows and not execute:
        output.note("nothing was changed; --execute moves the offsets")
