"""`ottla group list`: the groups of a cluster, by state, type and name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.group_rows import LISTED, listed_row
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.completing import complete_groups
from ottla.client.admin.names import choose
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import ACTIVE_STATES, GroupType

TYPES: Final = tuple(one.value for one in GroupType if one is not GroupType.UNKNOWN)
STATES: Final = (*sorted(ACTIVE_STATES), "Empty", "Dead")


@command(
    "list",
    examples=(
        "ottla group list",
        "ottla group list --state stable --type consumer",
        "ottla group list 'orders-*' --json",
    ),
)
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option("--regex", metavar="REGEX", help="Only groups whose whole name matches.")
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
@asks_cluster
async def list_(
    session: Session, names: Sequence[str], regex: str | None, states: Sequence[str], types: Sequence[str]
) -> None:
    """List the groups of all types, or some of them.

    With --json each line is {"group", "type", "protocol", "state", "coordinator"}.
    """
    async with cluster_client(session.access) as client:
        groups = await list_groups(client, states, [GroupType(one) for one in types])
    chosen = set(choose(names, (one.group_id for one in groups), regex).found)
    rows = [listed_row(one) for one in groups if one.group_id in chosen]
    asked = names or regex or states or types
    empty = "there is no such group" if asked else "there is no group"
    session.output.listing(rows, LISTED, name="group", empty=empty)
