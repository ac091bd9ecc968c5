"""`ottla config`: settings of topics, brokers, loggers, groups and client metrics, shown and changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import cluster_client
from ottla.cli.cluster.config_words import (
    SENSITIVE,
    TYPES,
    changes_of,
    config_row,
    documented,
    explained_facts,
    explanation,
    is_own,
    name_of,
    resource_of,
    shown_value,
)
from ottla.cli.cluster.outcomes import Outcomes
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.completing import complete_groups, complete_topics
from ottla.cli.frame.errors import ExitCode, did_you_mean
from ottla.cli.frame.table import Column
from ottla.client.admin.configs import (
    ALL_BROKERS,
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    config_resources,
    describe_configs,
    settled,
)
from ottla.client.admin.names import choose, is_pattern
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode

_COLUMNS: Final = (Column("name"), Column("value"), Column("source"))
_UNKNOWN_NAME: Final = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)


@group("config")
def config() -> None:
    """Show, explain and change settings of topics, brokers, loggers, groups and client metrics.

    TYPE is one of them: topic, broker, logger (of a broker), group, client-metrics. The NAME of a broker, or
    of its loggers, is its id; `broker default` stands for all brokers.
    """


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
    match ctx.params.get("kind"):
        case "topic":
            return complete_topics(ctx, param, incomplete)
        case "group":
            return complete_groups(ctx, param, incomplete)
        case _:
            return []


_kind = click.argument("kind", type=click.Choice(list(TYPES)), metavar="TYPE")
_name = click.argument("name", metavar="NAME", shell_complete=_complete_name)
_validate_only = click.option(
    "--validate-only", is_flag=True, help="Only find out whether the cluster would do it."
)


# -- describe and get ----------------------------------------------------------------------------------------


@config.command(
    "describe",
    short_help="Show and explain settings of one thing, or of all of a TYPE.",
    examples=(
        "ottla config describe topic orders",
        "ottla config describe topic orders --key retention.ms --explain",
        "ottla config describe broker default",
        "ottla config describe broker 1 --all --json",
    ),
)
@_kind
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_name)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this setting; may be repeated.")
@click.option("--all", "-a", "everything", is_flag=True, help="Also values that come from elsewhere.")
@click.option("--explain", is_flag=True, help="With type, default, all layers, and documentation.")
@asks_cluster
async def describe(
    session: Session,
    /,
    kind: str,
    names: tuple[str, ...],
    keys: tuple[str, ...],
    everything: bool,
    explain: bool,
) -> int:
    """Show the settings of one thing, of some, or of all of a TYPE.

    Those that were set for it; --all and --key show the others too. The values of passwords are never shown.
    With --json an object a setting: type, resource, name, value, source, read_only, sensitive; --explain adds
    value_type, default, synonyms (name, value, source) and documentation.
    """
    outcomes = Outcomes(session.output)
    async with cluster_client(session.access) as requests:
        resources = await _resources(requests, kind, names)
        found = await _described(requests, resources, keys or None, explain)
    shown: list[tuple[Resource, ConfigEntry]] = []
    for resource, entries in found.items():
        if isinstance(entries, ClusterError):
            outcomes.failed(entries)
            continue
        for key in dict.fromkeys(keys):
            if all(entry.name != key for entry in entries):
                outcomes.failed(f"{resource} has no setting {key}")
        shown += [(resource, one) for one in entries if everything or keys or is_own(resource, one)]
    _tell(session, shown, explain, several=len(found) > 1)
    if not shown and found and outcomes.exit_code is ExitCode.DONE and not everything:
        session.output.note("no settings of its own; --all shows all")
    return outcomes.exit_code


def _tell(
    session: Session, shown: Sequence[tuple[Resource, ConfigEntry]], explain: bool, *, several: bool
) -> None:
    output = session.output
    if not explain:
        columns = (Column("resource", "of"), *_COLUMNS) if several else _COLUMNS
        rows = [config_row(resource, entry) for resource, entry in shown]
        if output.for_people:
            for row in rows:
                row["value"] = SENSITIVE if row["sensitive"] else shown_value(row["value"])
        output.listing(rows, columns)
        return
    texts = {
        resource: documented(resource, [entry for one, entry in shown if one == resource])
        for resource in dict.fromkeys(resource for resource, _ in shown)
    }
    for number, (resource, entry) in enumerate(shown):
        row = explanation(resource, entry, texts[resource][entry.name])
        if number:
            output.say("")
        output.facts(explained_facts(row) if output.for_people else row)


@config.command(
    "get",
    short_help="Print values that hold.",
    examples=(
        "ottla config get topic orders retention.ms",
        "ottla config get broker 1 log.dirs num.io.threads",
    ),
)
@_kind
@_name
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@asks_cluster
async def get(session: Session, /, kind: str, name: str, keys: tuple[str, ...]) -> int:
    """Print values that hold, wherever they were set: the value alone for one KEY, else KEY=VALUE lines.

    With --json an object a setting, as `describe` writes it. A password is printed as nothing.
    """
    outcomes = Outcomes(session.output)
    resource = resource_of(kind, name)
    async with cluster_client(session.access) as requests:
        entries = _settings((await _described(requests, [resource], keys, False))[resource])
        there = {entry.name: entry for entry in entries}
        for key in dict.fromkeys(keys):
            entry = there.get(key)
            if entry is None:
                outcomes.failed(f"{resource} has no setting {key}{await _similar(requests, resource, key)}")
            elif session.output.is_json:
                session.output.json(config_row(resource, entry))
            else:
                value = entry.value or ""
                session.output.line(value if len(keys) == 1 else f"{key}={value}")
    return outcomes.exit_code


async def _resources(requests: ClusterRequests, kind: str, names: Sequence[str]) -> list[Resource]:
    """The resources of a type that have these names, or match them, or are there. Raises UserError."""
    type_ = TYPES[kind]
    plain = [resource_of(kind, name) for name in dict.fromkeys(names) if not is_pattern(name)]
    patterns = [name for name in names if is_pattern(name)]
    if names and not patterns:
        return plain
    there = await config_resources(requests, type_)
    found = [Resource(type_, name) for name in choose(patterns, there).found]
    if not names and type_ is ResourceType.BROKER:
        found.append(Resource(type_, ALL_BROKERS))
    if patterns and not found:
        raise UserError(f"no {kind} matches {' '.join(patterns)}")
    return list(dict.fromkeys([*plain, *found]))


async def _described(
    requests: ClusterRequests, resources: Sequence[Resource], keys: Sequence[str] | None, explain: bool
) -> dict[Resource, list[ConfigEntry] | ClusterError]:
    """The settings of resources; the error for a topic that does not exist names those that are alike."""
    found = await describe_configs(requests, resources, names=keys, explain=explain)
    for resource, entries in found.items():
        if isinstance(entries, ClusterError) and resource.type is ResourceType.TOPIC:
            found[resource] = await _named(requests, resource, entries)
    return found


async def _named(requests: ClusterRequests, resource: Resource, problem: ClusterError) -> ClusterError:
    if resource.type is not ResourceType.TOPIC or problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return problem
    names = await config_resources(requests, ResourceType.TOPIC)
    return ClusterError(f"{resource} does not exist{did_you_mean(resource.name, names)}", problem.code)


def _settings(found: list[ConfigEntry] | ClusterError) -> list[ConfigEntry]:
    if isinstance(found, ClusterError):
        raise found
    return found


async def _similar(requests: ClusterRequests, resource: Resource, key: str) -> str:
    """Advice for a setting that does not exist: the resource's settings with names like it."""
    entries = (await describe_configs(requests, [resource]))[resource]
    return "" if isinstance(entries, ClusterError) else did_you_mean(key, (one.name for one in entries))


# -- set and unset -------------------------------------------------------------------------------------------


@config.command(
    "set",
    short_help="Set values; other settings stay as they are.",
    examples=(
        "ottla config set topic orders retention.ms=86400000 cleanup.policy=compact,delete",
        "ottla config set topic orders cleanup.policy+=compact",
        "ottla config set broker default log.cleaner.threads=2",
        "ottla config set logger 1 kafka.controller=DEBUG",
    ),
)
@_kind
@_name
@click.argument("words", nargs=-1, required=True, metavar="KEY=VALUE...")
@_validate_only
@asks_cluster
async def set_values(
    session: Session, /, kind: str, name: str, words: tuple[str, ...], validate_only: bool
) -> None:
    """Set values; settings that are not named stay as they are. KEY+=ITEM and KEY-=ITEM change a list.

    All of them are set, or none. With --json one object: type, name, set, validate_only.
    """
    resource, changes = resource_of(kind, name), changes_of(words)
    async with cluster_client(session.access) as requests:
        await _change(requests, resource, changes, validate_only)
    verb = "could be changed" if validate_only else "changed"
    names = [one.name for one in changes]
    session.output.done(
        f"{resource}: {', '.join(names)} {verb}",
        {"type": kind, "name": name_of(resource), "set": names, "validate_only": validate_only},
    )


@config.command(
    "unset",
    short_help="Give up values, so that the default holds again.",
    examples=(
        "ottla config unset topic orders retention.ms",
        "ottla config unset broker default log.cleaner.threads",
    ),
)
@_kind
@_name
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_validate_only
@asks_cluster
async def unset(
    session: Session, /, kind: str, name: str, keys: tuple[str, ...], validate_only: bool
) -> None:
    """Give up values that were set for NAME, so that the default holds again.

    With --json one object: type, name, unset, validate_only.
    """
    resource = resource_of(kind, name)
    async with cluster_client(session.access) as requests:
        entries = _settings((await _described(requests, [resource], None, False))[resource])
        own = [one.name for one in entries if is_own(resource, one)]
        for key in keys:
            if key not in own:
                raise UserError(f"{resource} does not set {key}{did_you_mean(key, own)}")
        changes = [Change(key, Operation.DELETE) for key in dict.fromkeys(keys)]
        await _change(requests, resource, changes, validate_only)
    verb = "could be unset" if validate_only else "unset"
    names = [one.name for one in changes]
    session.output.done(
        f"{resource}: {', '.join(names)} {verb}",
        {"type": kind, "name": name_of(resource), "unset": names, "validate_only": validate_only},
    )


async def _change(
    requests: ClusterRequests, resource: Resource, changes: Sequence[Change], validate_only: bool
) -> None:
    """Raises ClusterError, which names similar settings for one that does not exist."""
    problem = (await alter_configs(requests, {resource: changes}, validate_only=validate_only))[resource]
    if problem is None:
        if not validate_only and resource.type is not ResourceType.BROKER_LOGGER:
            await settled(requests, {resource: changes})
        return
    if problem.code in _UNKNOWN_NAME:
        entries = (await describe_configs(requests, [resource]))[resource]
        known = [] if isinstance(entries, ClusterError) else [one.name for one in entries]
        for one in changes:
            if known and one.name not in known and (advice := did_you_mean(one.name, known)):
                raise ClusterError(f"{problem}{advice}", problem.code)
    raise await _named(requests, resource, problem)
