"""`ottla quota`: how much users, client ids and addresses may use, shown, set and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.options import pairs_of
from ottla.cli.frame.table import Column
from ottla.client.admin.client_quotas import (
    QUOTAS,
    Entity,
    EntityType,
    Match,
    Quotas,
    alter_quotas,
    describe_quotas,
    entity_words,
)
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UsageError, UserError

_ENTITIES: Final = (
    ("user", EntityType.USER, "user"),
    ("client-id", EntityType.CLIENT_ID, "client id"),
    ("ip", EntityType.IP, "address"),
)
_COLUMNS: Final = (
    Column("user"),
    Column("client_id", "client-id"),
    Column("ip"),
    Column("quota"),
    Column("value"),
)
#: The entity of the default of a kind, in tables and in JSON.
_DEFAULT: Final = "<default>"
_validate_only = click.option(
    "--validate-only", is_flag=True, help="Only find out whether the cluster would do it."
)


@group("quota")
def quota() -> None:
    """Show and change quotas: how much users, client ids and addresses may use.

    The quotas: producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage (of the
    broker's time), controller_mutation_rate (partitions a second), connection_creation_rate (of an address).
    The most specific one holds for a client.
    """


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option, _, words in reversed(_ENTITIES):
        name = option.replace("-", "_")
        function = click.option(
            f"--default-{option}", f"default_{name}", is_flag=True, help=f"The default of each {words}."
        )(function)
        function = click.option(f"--{option}", name, metavar="NAME", help=f"This {words}.")(function)
    return function


def _entity(given: dict[str, Any]) -> dict[EntityType, str | None]:
    """The entity of the options. Raises UsageError."""
    found: dict[EntityType, str | None] = {}
    for option, kind, _ in _ENTITIES:
        name = option.replace("-", "_")
        named, is_default = given[name], given[f"default_{name}"]
        if named is not None and is_default:
            raise UsageError(f"--{option} and --default-{option} don't go together")
        if named == "":
            raise UsageError(f"--{option} needs a name; --default-{option} is for the default")
        if named is not None or is_default:
            found[kind] = named
    if EntityType.IP in found and len(found) > 1:
        raise UsageError("an address has quotas of its own, not together with a user or client id")
    return found


# -- describe ------------------------------------------------------------------------------------------------


@quota.command(
    "describe",
    short_help="Show quotas, all or those of some entities.",
    examples=(
        "ottla quota describe",
        "ottla quota describe --user alice",
        "ottla quota describe --default-user --default-client-id --strict --json",
    ),
)
@_entity_options
@click.option("--strict", is_flag=True, help="Only the entity with exactly these parts.")
@asks_cluster
async def describe(session: Session, /, strict: bool, **given: Any) -> None:
    """Show the quotas of all entities, or of those with the parts that are given.

    With --json an object an entity: user, client_id, ip (null where the entity has no such part, "<default>"
    for the default), quotas.
    """
    entity = _entity(given)
    async with cluster_client(session.access) as requests:
        found = await _found(requests, entity, strict=strict)
    if session.output.for_people:
        rows = [{**_parts(one), "quota": key, "value": value} for one in found for key, value in _shown(one)]
        session.output.listing(rows, _COLUMNS, empty="there is no such quota")
        return
    session.output.listing([{**_parts(one), "quotas": dict(one.values)} for one in found], name="user")


async def _found(requests: ClusterRequests, entity: Entity, *, strict: bool) -> list[Quotas]:
    components = {
        kind: (Match.DEFAULT, None) if name is None else (Match.EXACT, name) for kind, name in entity.items()
    }
    return await describe_quotas(requests, components, strict=strict and bool(components))


def _parts(one: Quotas) -> dict[str, str | None]:
    return {
        kind.replace("-", "_"): (one.entity[kind] or _DEFAULT) if kind in one.entity else None
        for kind in EntityType
    }


def _shown(one: Quotas) -> list[tuple[str, str]]:
    return [(key, _number(value)) for key, value in one.values.items()]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


# -- alter and delete ----------------------------------------------------------------------------------------


@quota.command(
    "alter",
    short_help="Set quotas of an entity.",
    examples=(
        "ottla quota alter --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "ottla quota alter --default-client-id request_percentage=50",
        "ottla quota alter --user alice --client-id app producer_byte_rate=1000000",
        "ottla quota alter --ip 10.0.0.7 connection_creation_rate=10",
    ),
)
@_entity_options
@click.argument("words", nargs=-1, required=True, metavar="QUOTA=NUMBER...")
@_validate_only
@asks_cluster
async def alter(session: Session, /, words: tuple[str, ...], validate_only: bool, **given: Any) -> None:
    """Set quotas of a user, a client id, both together, an address, or of their defaults. All or none.

    With --json one object: user, client_id, ip, quotas, validate_only.
    """
    entity = _required(given)
    values = {key: _value(key, text) for key, text in pairs_of("QUOTA=NUMBER", words).items()}
    async with cluster_client(session.access) as requests:
        await alter_quotas(requests, entity, values, validate_only=validate_only)
    verb = "could be set" if validate_only else "set"
    told = ", ".join(f"{key}={_number(value)}" for key, value in values.items())
    result = {**_parts(Quotas(entity, {})), "quotas": values, "validate_only": validate_only}
    session.output.done(f"{entity_words(entity)}: {told} {verb}", result)


@quota.command(
    "delete",
    short_help="Remove quotas of an entity.",
    examples=(
        "ottla quota delete --user alice producer_byte_rate",
        "ottla quota delete --default-client-id",
    ),
)
@_entity_options
@click.argument("names", nargs=-1, metavar="[QUOTA]...", type=click.Choice(QUOTAS))
@_validate_only
@asks_cluster
async def delete(session: Session, /, names: tuple[str, ...], validate_only: bool, **given: Any) -> None:
    """Remove quotas of an entity, all of them if none is named.

    With --json one object: user, client_id, ip, deleted, validate_only.
    """
    entity = _required(given)
    async with cluster_client(session.access) as requests:
        there = [one for one in await _found(requests, entity, strict=True) if dict(one.entity) == entity]
        has = dict(there[0].values) if there else {}
        missing = [name for name in names if name not in has]
        if missing or not has:
            raise UserError(f"{entity_words(entity)} has no {missing[0] if missing else 'quota'}")
        chosen = list(dict.fromkeys(names)) or list(has)
        await alter_quotas(requests, entity, dict.fromkeys(chosen), validate_only=validate_only)
    verb = "could be removed" if validate_only else "removed"
    result = {**_parts(Quotas(entity, {})), "deleted": chosen, "validate_only": validate_only}
    session.output.done(f"{entity_words(entity)}: {', '.join(chosen)} {verb}", result)


def _required(given: dict[str, Any]) -> dict[EntityType, str | None]:
    entity = _entity(given)
    if not entity:
        raise UsageError("say whose: --user, --client-id, --ip, or the default of one")
    return entity


def _value(key: str, text: str) -> float:
    if key not in QUOTAS:
        raise UsageError(f"{key} is no quota: it is one of {', '.join(QUOTAS)}")
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{key} takes a number, not {text}") from None
    if not 0 < value < float("inf"):
        raise UsageError(f"{key} has to be more than 0, not {text}")
    return value
