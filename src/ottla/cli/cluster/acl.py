"""`ottla acl`: who may do what, listed, allowed and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from ottla.cli.cluster.acl_words import (
    OPERATIONS,
    acl_row,
    client_acls,
    created_acls,
    filters_of,
    named,
    resource_options,
)
from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.table import Column
from ottla.client.admin.acls import Acl, AclFilter, create_acls, delete_acls, list_acls
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UsageError

_COLUMNS: Final = (
    Column("resource_type", "type"),
    Column("resource_name", "resource"),
    Column("pattern_type", "pattern"),
    Column("principal"),
    Column("host"),
    Column("operation"),
    Column("permission"),
)


@group("acl")
def acl() -> None:
    """List, create and delete ACLs: who may do what with topics, groups and the cluster.

    A principal without its type is a user: alice is User:alice. The cluster has to run with an authorizer.
    """


def _who(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(list(OPERATIONS)),
            metavar="OPERATION",
            help=f"One of {', '.join(OPERATIONS)}. May be repeated.",
        )(function)
        function = click.option(
            "--host", "hosts", multiple=True, metavar="ADDRESS", help="Only from this address, not from all."
        )(function)
        return click.option("--principal", "principals", multiple=True, metavar="NAME", help=text)(function)

    return add


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option(
        "--permission", type=click.Choice(["allow", "deny"]), help="Only those that allow, or deny."
    )(function)
    function = click.option(
        "--pattern",
        type=click.Choice(["literal", "prefixed", "match"]),
        help="Only these patterns; match: all that hold for the resources of these names.",
    )(function)
    return resource_options(_who("Whom they are for. May be repeated.")(function))


# -- list ----------------------------------------------------------------------------------------------------


@acl.command(
    "list",
    short_help="List ACLs.",
    examples=(
        "ottla acl list",
        "ottla acl list --principal alice",
        "ottla acl list --topic orders --pattern match --json",
    ),
)
@_filter_options
@asks_cluster
async def list_(
    session: Session,
    /,
    principals: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    pattern: str | None,
    permission: str | None,
    **resources: Any,
) -> None:
    """List ACLs, all or those that the options select.

    With --json an object an ACL: resource_type, resource_name, pattern_type, principal, host, operation,
    permission.
    """
    filters = filters_of(
        named(resources), principals, hosts, operations, pattern=pattern, permission=permission
    )
    async with cluster_client(session.access) as requests:
        found = await _selected(requests, filters)
    rows = [acl_row(each) for each in found]
    session.output.listing(rows, _COLUMNS, name="resource_name", empty="there is no such ACL")


async def _selected(requests: ClusterRequests, filters: list[AclFilter]) -> list[Acl]:
    found: dict[Acl, None] = {}
    for each in filters:
        found.update(dict.fromkeys(await list_acls(requests, each)))
    return sorted(found)


# -- create --------------------------------------------------------------------------------------------------


@acl.command(
    "create",
    short_help="Allow something, or deny it.",
    examples=(
        "ottla acl create --principal alice --topic orders --operation read",
        "ottla acl create --principal app --topic orders- --prefixed --producer",
        "ottla acl create --principal app --topic orders --group billing --consumer",
        "ottla acl create --principal bob --cluster --operation all --deny --host 10.0.0.7",
    ),
)
@resource_options
@_who("Whom it is for; '*' is everyone. May be repeated.")
@click.option("--prefixed", is_flag=True, help="The names are prefixes.")
@click.option("--deny", is_flag=True, help="Deny it; a denial wins over all that allows.")
@click.option("--producer", is_flag=True, help="What a producer to the topics needs.")
@click.option("--consumer", is_flag=True, help="What a consumer of the topics in the groups needs.")
@click.option("--idempotent", is_flag=True, help="Also its producer id, on Kafka below 2.8.")
@asks_cluster
async def create(
    session: Session,
    /,
    principals: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    prefixed: bool,
    deny: bool,
    producer: bool,
    consumer: bool,
    idempotent: bool,
    **resources: Any,
) -> int:
    """Create ACLs, one for each combination of principal, resource, operation and host.

    One that is there already is no error. With --json an object an ACL, as `list` writes it, with created.
    """
    places = named(resources)
    if not principals:
        raise UsageError("say whom it is for: --principal")
    if not places:
        raise UsageError("say what it is for: --topic, --group, --cluster …")
    if producer or consumer:
        if operations or deny:
            raise UsageError("--producer and --consumer say which operations are allowed")
        wanted = client_acls(
            places,
            principals,
            hosts,
            producer=producer,
            consumer=consumer,
            idempotent=idempotent,
            prefixed=prefixed,
        )
    else:
        if not operations or idempotent:
            raise UsageError("give --operation, --producer or --consumer")
        chosen = [OPERATIONS[each] for each in operations]
        wanted = created_acls(places, principals, hosts, chosen, prefixed=prefixed, deny=deny)
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        for each, problem in (await create_acls(requests, wanted)).items():
            if problem is not None:
                outcomes.failed(problem)
            else:
                outcomes.done(str(each), {**acl_row(each), "created": True})
    return outcomes.exit_code


# -- delete --------------------------------------------------------------------------------------------------


@acl.command(
    "delete",
    short_help="Delete ACLs.",
    examples=(
        "ottla acl delete --principal alice --topic orders --operation read",
        "ottla acl delete --principal bob --yes",
    ),
)
@_filter_options
@click.option("--all", "everything", is_flag=True, help="All ACLs of the cluster.")
@yes_option
@asks_cluster
async def delete(
    session: Session,
    /,
    principals: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    pattern: str | None,
    permission: str | None,
    everything: bool,
    yes: bool,
    **resources: Any,
) -> None:
    """Delete the ACLs that the options select, and ask before.

    With --json an object an ACL, as `list` writes it, with deleted.
    """
    places = named(resources)
    given = any((places, principals, hosts, operations, pattern, permission))
    if given is everything:
        raise UsageError("say which ACLs to delete, or --all")
    filters = filters_of(places, principals, hosts, operations, pattern=pattern, permission=permission)
    async with cluster_client(session.access) as requests:
        found = await _selected(requests, filters)
        if not found:
            session.output.note("there is no such ACL")
            return
        count = f"{len(found)} ACLs" if len(found) > 1 else f"the ACL: {found[0]}"
        confirm(f"delete {count}", yes)
        for each in await delete_acls(requests, [AclFilter(*one) for one in found]):
            session.output.done(f"deleted: {each}", {**acl_row(each), "deleted": True})
