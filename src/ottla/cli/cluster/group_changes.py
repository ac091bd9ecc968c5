"""`ottla group delete`, `delete-offsets` and `remove-member`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.group_describing import chosen_types, no_such_group
from ottla.cli.cluster.group_words import chosen_partitions, topic_choice
from ottla.cli.cluster.outcomes import Outcomes, no_such_topic
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.client.admin.topics import delete_topics
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.client.groups import changes
from ottla.client.groups.describing import describe_groups
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupDescription, GroupType
from ottla.config.errors import UsageError


@command("delete", examples=("ottla group delete orders", "ottla group delete 'test-*' --yes"))
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups that have no members.")
@click.option("--internal-topics", is_flag=True, help="Delete the internal topics of streams groups as well.")
@yes_option
@asks_cluster
async def delete(
    session: Session, groups: Sequence[str], everything: bool, internal_topics: bool, yes: bool
) -> int:
    """Delete groups, of any type, and their offsets; they must have no members."""
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        types = await chosen_types(client, groups, everything, outcomes)
        described = await describe_groups(client, types)
        free = []
        for group_id, found in described.items():
            if isinstance(found, ClusterError):
                outcomes.failed(found)
            elif not found.is_active:
                free.append(group_id)
            elif not everything:
                outcomes.failed(
                    f"group {group_id} has members ({found.state}): it can be deleted "
                    "when they have stopped, or after `ottla group remove-member`"
                )
        if not free:
            return outcomes.exit_code
        confirm(f"delete {_counted(free)} and {'its' if len(free) == 1 else 'their'} offsets", yes)
        for group_id, error in (await changes.delete_groups(client, free)).items():
            if error is not None:
                outcomes.failed(error)
                continue
            outcomes.done(f"deleted group {group_id}", {"group": group_id, "deleted": True})
            if internal_topics:
                await delete_internal_topics(client, internal_topics_of(described[group_id]), outcomes)
    return outcomes.exit_code


def _counted(groups: Sequence[str]) -> str:
    return f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"


def internal_topics_of(group: GroupDescription | ClusterError) -> list[str]:
    """The repartition and changelog topics of a streams group; none of other groups."""
    topology = group.topology if isinstance(group, GroupDescription) else None
    return list(
        dict.fromkeys(
            topic["name"]
            for one in (topology or {}).get("subtopologies") or ()
            for kind in ("repartitionSourceTopics", "stateChangelogTopics")
            for topic in one[kind]
        )
    )


async def delete_internal_topics(client: ClusterRequests, topics: Sequence[str], outcomes: Outcomes) -> None:
    """Delete topics of a streams group, and tell so."""
    for topic, failure in (await delete_topics(client, topics)).items() if topics else ():
        if failure is None:
            outcomes.done(f"deleted topic {topic}", {"topic": topic, "deleted": True})
        else:
            outcomes.failed(failure)


@command("delete-offsets", examples=("ottla group delete-offsets orders --topic payments --topic refunds:0",))
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,2,5-7]",
    shell_complete=complete_topics,
    help="The topic, or some of its partitions; may be repeated. Of a share group only whole topics.",
)
@asks_cluster
async def delete_offsets(session: Session, group_id: str, topics: Sequence[str]) -> int:
    """Forget a group's offsets of topics that no member is subscribed to."""
    choice = topic_choice(topics)
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        group_type = await _type_of(client, group_id)
        if group_type is GroupType.SHARE:
            if any(partitions is not None for partitions in choice.values()):
                raise UsageError(f"{group_id} is a share group, which has offsets of whole topics")
            for topic, error in (await changes.delete_share_offsets(client, group_id, choice)).items():
                _told(outcomes, group_id, topic, None, error)
            return outcomes.exit_code
        counts = await _partition_counts(client, choice)
        partitions = chosen_partitions(choice, counts)
        for place, error in (await changes.delete_offsets(client, group_id, partitions)).items():
            _told(outcomes, group_id, place.topic, place.partition, error)
    return outcomes.exit_code


async def _partition_counts(client: ClusterRequests, choice: Mapping[str, object]) -> dict[str, int]:
    counts = {}
    for topic in await client.topics(choice):
        if topic.error_code:
            raise no_such_topic(topic.name or "", [one.name or "" for one in await client.topics()])
        counts[topic.name or ""] = len(topic.partitions)
    return counts


def _told(
    outcomes: Outcomes, group_id: str, topic: str, partition: int | None, error: ClusterError | None
) -> None:
    place = topic if partition is None else f"{topic}-{partition}"
    if error is not None:
        outcomes.failed(f"{place}: {error}")
        return
    result = {"group": group_id, "topic": topic, "partition": partition, "deleted": True}
    outcomes.done(f"group {group_id} has no offset of {place} any more", result)


@command(
    "remove-member",
    examples=("ottla group remove-member orders consumer-1-2f0c", "ottla group remove-member orders --all"),
)
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.argument("words", metavar="[MEMBER]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All members.")
@yes_option
@asks_cluster
async def remove_member(
    session: Session, group_id: str, words: Sequence[str], everything: bool, yes: bool
) -> int:
    """Take members out of a group, by their member id or instance id. One that still runs joins again."""
    if bool(words) == everything:
        raise UsageError(
            "name members, or give --all" if not words else "name members or give --all, not both"
        )
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        group = (await describe_groups(client, {group_id: await _type_of(client, group_id)}))[group_id]
        if isinstance(group, ClusterError):
            raise group
        by_name = {member.member_id: member for member in group.members}
        by_name |= {one.instance_id: one for one in group.members if one.instance_id is not None}
        chosen = list(group.members) if everything else []
        for word in words:
            if word in by_name:
                chosen.append(by_name[word])
            else:
                outcomes.failed(f"group {group_id} has no member {word}")
        if chosen:
            confirm(f"remove {len(chosen)} of {len(group.members)} members from group {group_id}", yes)
        for member in dict.fromkeys(member.member_id for member in chosen):
            try:
                await changes.remove_member(client, group_id, group.type, by_name[member])
            except ClusterError as problem:
                outcomes.failed(problem)
                continue
            result = {"group": group_id, "member_id": member, "removed": True}
            outcomes.done(f"member {member} is out of group {group_id}", result)
    return outcomes.exit_code


async def _type_of(client: ClusterRequests, group_id: str) -> GroupType:
    """The type of a group. Raises ClusterError if there is none of the name."""
    known = {one.group_id: one.type for one in await list_groups(client)}
    if group_id not in known:
        raise no_such_group(group_id, known)
    return known[group_id]
