"""`ottla group describe`: members, assignments, and how far groups are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.group_rows import (
    MEMBERS,
    OFFSETS,
    STATES,
    group_object,
    lag_object,
    member_row,
    state_row,
    topology_lines,
)
from ottla.cli.cluster.group_words import shown_lag
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_groups
from ottla.cli.frame.errors import did_you_mean
from ottla.client.admin.names import choose
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.client.groups.lag import longest_lag_ms, total_lag
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType
from ottla.client.groups.survey import SurveyedGroup, survey
from ottla.config.errors import UsageError


@command(
    "describe",
    examples=(
        "ottla group describe orders",
        "ottla group describe --all --summary",
        "ottla group describe orders payments --members",
        "ottla group describe 'orders-*' --json",
    ),
)
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option("--all", "everything", is_flag=True, help="All groups of the cluster.")
@click.option("--summary", is_flag=True, help="One line a group: state, members, lag.")
@click.option("--members", is_flag=True, help="The members and their assignments in place of the offsets.")
@click.option("--topology", is_flag=True, help="The topology of a streams group in place of the offsets.")
@click.option("--no-times", is_flag=True, help="Leave out the lag in time, for which records are read.")
@asks_cluster
async def describe(
    session: Session,
    groups: Sequence[str],
    everything: bool,
    summary: bool,
    members: bool,
    topology: bool,
    no_times: bool,
) -> int:
    """Tell the members, the offsets and the lag of groups.

    LAG counts records between the group's offset and the end, BEHIND is the age of the first record that is
    not committed. With --json each line is a whole group: members, partitions with their lag, topology.
    """
    if summary + members + topology > 1:
        raise UsageError("give only one of --summary, --members and --topology")
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as client:
        types = await chosen_types(client, groups, everything, outcomes)
        surveyed = await survey(client, types, ages=not (no_times or members or topology))
    found = list(_found(surveyed, outcomes))
    output = session.output
    if output.is_json or output.is_quiet:
        output.listing(map(group_object, found), name="group")
    elif summary:
        output.listing([state_row(one) for one in found], STATES, name="group")
    else:
        for number, one in enumerate(found):
            if number:
                output.say("")
            _tell(session, one, members, topology)
    return outcomes.exit_code


async def chosen_types(
    client: ClusterRequests, words: Sequence[str], everything: bool, outcomes: Outcomes
) -> dict[str, GroupType]:
    """The groups that the words of a command line mean, with their types; those that are missing are told.

    Raises UsageError for no words and no --all.
    """
    if bool(words) == everything:
        raise UsageError("name groups, or give --all" if not words else "name groups or give --all, not both")
    known = {one.group_id: one.type for one in await list_groups(client)}
    # a name is that of a group even if it looks like a pattern
    exact = [word for word in words if word in known]
    chosen = choose([word for word in words if word not in known], known) if len(exact) < len(words) else None
    names = set(known) if everything else {*exact, *(chosen.found if chosen else ())}
    for name in chosen.missing if chosen and not everything else ():
        outcomes.failed(no_such_group(name, known))
    return {name: known[name] for name in sorted(names)}


def no_such_group(name: str, known: Mapping[str, GroupType]) -> ClusterError:
    """The error for a group that is not there, with those that are alike."""
    return ClusterError(f"group {name} does not exist{did_you_mean(name, known)}")


def _found(
    surveyed: Mapping[str, SurveyedGroup | ClusterError], outcomes: Outcomes
) -> Iterator[SurveyedGroup]:
    for one in surveyed.values():
        if isinstance(one, ClusterError):
            outcomes.failed(one)
            continue
        if one.offsets_error is not None:
            outcomes.failed(one.offsets_error)
        yield one


def _tell(session: Session, one: SurveyedGroup, members: bool, topology: bool) -> None:
    group, output = one.group, session.output
    count = len(group.members)
    facts: list[Any] = [
        f"{group.group_id}: {group.type.value} group, {group.state}",
        f"{count or 'no'} member{'' if count == 1 else 's'}",
    ]
    if group.assignor:
        facts.append(f"assignor {group.assignor}")
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}")
    if group.coordinator is not None:
        facts.append(f"coordinator {group.coordinator}")
    lag, behind_ms = total_lag(one.lags), longest_lag_ms(one.lags)
    if lag is not None:
        facts.append(f"lag {lag}" + (f", {shown_lag(behind_ms)} behind" if behind_ms else ""))
    output.say(", ".join(facts))
    if topology:
        for line in topology_lines(group):
            output.say(line)
    elif members:
        output.listing([member_row(member) for member in group.members], MEMBERS, name="member_id")
    else:
        rows = [lag_object(lag) for lag in one.lags]
        output.listing(
            rows, OFFSETS, name="topic", empty="the group has no offsets and no assigned partitions"
        )
