"""`ottla group`: groups of consumers, of share consumers and of streams applications, of any Kafka cluster.

list            the groups, by state and type
describe        members, assignments, and how far each group is behind: in records, and in time
reset           move a group's offsets; without --execute only tells how
delete          forget groups that have no members
delete-offsets  forget a group's offsets of topics
remove-member   take members out of a group
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group as command_group
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.confirming import yes_option

TYPES = ("classic", "consumer", "share", "streams")
STATES = (
    "Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip


@command_group("group", examples=["ottla group list", "ottla group describe orders"])
def group() -> None:
    """List, describe, reset and delete groups of consumers."""


@group.command(
    "list",
    examples=[
        "ottla group list",
        "ottla group list --state Stable --type consumer",
        "ottla group list --regex 'orders-.*' --json",
    ],
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups of this type; may be repeated.",
)
@click.option("--regex", metavar="REGEX", help="Only groups whose whole name matches.")
@asks_cluster
async def list_(session: Session, states: Sequence[str], types: Sequence[str], regex: str | None) -> Any:
    """List the groups of all types, or some of them.

    With --json each line is {"group", "type", "protocol", "state", "coordinator"}.
    """
    from ottla.cli.cluster.asking import cluster_of
    from ottla.cli.cluster.group_rows import LISTED, listed_row
    from ottla.cli.cluster.group_words import type_words
    from ottla.client.admin.names import choose
    from ottla.client.groups.listing import list_groups

    async with cluster_of(session) as client:
        groups = await list_groups(client, states, type_words(types))
    chosen = set(choose((), (one.group_id for one in groups), regex).found)
    rows = [listed_row(one) for one in groups if one.group_id in chosen]
    session.output.listing(rows, LISTED, name="group", empty="there is no such group")


@group.command(
    "describe",
    examples=[
        "ottla group describe orders",
        "ottla group describe --all --summary",
        "ottla group describe orders payments --members",
        "ottla group describe 'orders-*' --json",
    ],
)
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups of the cluster.")
@click.option("--summary", is_flag=True, help="One line a group: state, members, lag.")
@click.option("--members", is_flag=True, help="The members and their assignments in place of the offsets.")
@click.option("--topology", is_flag=True, help="The topology of a streams group in place of the offsets.")
@click.option("--no-times", is_flag=True, help="Leave out the lag in time, for which records are read.")
@asks_cluster
async def describe(session: Session, groups: Sequence[str], **choice: bool) -> Any:
    """Describe GROUPS: names, or patterns as a shell has them.

    LAG counts records between the group's offset and the end; BEHIND is the age of the first record that is
    not committed yet. With --json each line is a whole group: members, partitions with their lag, topology.
    """
    from ottla.cli.cluster.group_describing import describe_groups

    return await describe_groups(session, groups, **choice)


@group.command(
    "reset",
    examples=[
        "ottla group reset orders --to earliest --all-topics",
        "ottla group reset orders --to @2026-01-31T12:00 --topic payments:0,3 --execute",
        "ottla group reset orders --to current --all-topics --export orders.csv",
        "ottla group reset orders --from-file orders.csv --execute",
    ],
)
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups of the cluster.")
@click.option(
    "--to", metavar="PLACE", help="earliest, latest, current, an offset, or a time: @2026-01-31T12:00, @-2h."
)
@click.option("--shift-by", type=int, metavar="N", help="Move the offsets by N records, back if negative.")
@click.option("--by-duration", metavar="PT2H", help="To the first record that is at most so old.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False),
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
    help="Write the new offsets as CSV; - is stdout.",
)
@click.option("--execute", is_flag=True, help="Do it. Without it nothing is changed.")
@asks_cluster
async def reset(session: Session, groups: Sequence[str], **choice: Any) -> Any:
    """Move the offsets of GROUPS; without --execute only tell how.

    The groups must have no members: stop their consumers first. With --json each line is a partition: {"group",
    "topic", "partition", "before", "offset", "note", "executed"}.
    """
    from ottla.cli.cluster.group_reset import reset_groups

    return await reset_groups(session, groups, **choice)


@group.command("delete", examples=["ottla group delete orders", "ottla group delete 'test-*' --yes"])
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups of the cluster that have no members.")
@click.option("--internal-topics", is_flag=True, help="Delete the internal topics of streams groups as well.")
@yes_option
@asks_cluster
async def delete(session: Session, groups: Sequence[str], **choice: bool) -> Any:
    """Delete GROUPS, of any type, and their offsets; they must have no members."""
    from ottla.cli.cluster.group_changes import delete_groups

    return await delete_groups(session, groups, **choice)


@group.command(
    "delete-offsets", examples=["ottla group delete-offsets orders --topic payments --topic refunds:0"]
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,2,5-7]",
    shell_complete=complete_topics,
    help="The topic, or some of its partitions; may be repeated. A share group has offsets of whole topics.",
)
@asks_cluster
async def delete_offsets(session: Session, name: str, topics: Sequence[str]) -> Any:
    """Forget a group's offsets of topics that no member is subscribed to."""
    from ottla.cli.cluster.group_changes import delete_offsets

    return await delete_offsets(session, name, topics)


@group.command(
    "remove-member",
    examples=["ottla group remove-member orders consumer-1-2f0c", "ottla group remove-member orders --all"],
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.argument("members", metavar="[MEMBER]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All members.")
@yes_option
@asks_cluster
async def remove_member(session: Session, name: str, members: Sequence[str], **choice: bool) -> Any:
    """Take members out of a group, by their member id or instance id. One that still runs joins again."""
    from ottla.cli.cluster.group_changes import remove_members

    return await remove_members(session, name, members, **choice)
