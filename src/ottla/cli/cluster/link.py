"""`ottla link`: topics that follow another cluster's with the same offsets, made, shown, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.cluster.any_broker import CommandError, cluster_client
from ottla.cli.cluster.link_status import ENDED, LinksStatus, partition_rows, read_status, require_link
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import group
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.options import pairs_of
from ottla.cli.frame.table import Column
from ottla.client.admin.configs import (
    ALL_BROKERS,
    Change,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
    settled,
)
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UsageError
from ottla.config.java_properties import parse_properties
from ottla.core.links.definition import (
    DEFAULT_INTERVAL_MS,
    InvalidLink,
    LinkDefinition,
    check_name,
    decode_definition,
    encode_definition,
    parse_source,
    setting_of_link,
)
from ottla.core.settings.link_settings import FAIL_OVER, LINK_NAME, LINK_STATE, PROMOTE

_LOOK_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 15.0
_LINKS: Final = (
    Column("link"),
    Column("state"),
    Column("source"),
    Column("topics"),
    Column("lag"),
)
_PARTITIONS: Final = (
    Column("topic"),
    Column("partition"),
    Column("state"),
    Column("end_offset", "end"),
    Column("source_end_offset", "source end"),
    Column("lag"),
    Column("lag_ms", "lag ms"),
    Column("told"),
)
_ENDS: Final = (
    Column("topic"),
    Column("partition"),
    Column("state"),
    Column("mirrored_end_offset", "mirrored to"),
    Column("end_offset", "end"),
    Column("left_behind", "left behind"),
    Column("leader_epoch", "epoch"),
    Column("aborted_transactions", "aborted"),
    Column("told"),
)


@group(
    "link",
    examples=(
        "ottla link create berlin --source berlin:9092 --pattern 'orders.*'",
        "ottla link describe berlin",
        "ottla link promote berlin",
    ),
)
def link() -> None:
    """Mirror topics of another cluster with the same offsets, and move to them.

    A mirror topic is read-only; its partitions, settings, groups' offsets and ACLs are the source's. The
    source may be any Kafka cluster.
    """


# -- create and delete ---------------------------------------------------------------------------------------


@link.command(
    "create",
    short_help="Link topics of another cluster.",
    examples=(
        "ottla link create berlin --source berlin:9092 --topic orders --topic payments",
        "ottla link create berlin --source berlin:9093 --pattern '.*' --source-config client.properties",
    ),
)
@click.argument("name")
@click.option("--source", required=True, metavar="HOST:PORT,…", help="Brokers of the source cluster.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Mirror this topic; may be repeated.")
@click.option(
    "--pattern", "patterns", multiple=True, metavar="REGEX", help="Mirror topics whose whole names match."
)
@click.option("--exclude", "excludes", multiple=True, metavar="REGEX", help="Mirror none of these topics.")
@click.option("--groups", metavar="REGEX", default=".*", help="Groups whose offsets come along, else all.")
@click.option("--no-groups", is_flag=True, help="No groups' offsets come along.")
@click.option("--no-acls", is_flag=True, help="ACLs do not come along.")
@click.option("--no-configs", is_flag=True, help="Settings of topics do not come along.")
@click.option(
    "--interval-ms",
    type=int,
    default=DEFAULT_INTERVAL_MS,
    metavar="MS",
    help="How often topics, settings, groups and lag are looked at. [default: 1000]",
)
@click.option(
    "--bytes-per-second",
    type=int,
    default=0,
    metavar="BYTES",
    help="What each broker of this cluster copies at most. [default: no limit]",
)
@click.option(
    "--source-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A properties file with the security settings for the source, by the Java client's names.",
)
@click.option(
    "--source-set",
    "source_words",
    multiple=True,
    metavar="KEY=VALUE",
    help="One such setting; may be repeated, wins over the file.",
)
@asks_cluster
async def create(
    session: Session,
    /,
    name: str,
    source: str,
    source_config: Path | None,
    source_words: tuple[str, ...],
    **given: Any,
) -> None:
    """Mirror topics of the cluster at --source.

    Names and values of the source's security settings are kept with the brokers' own passwords, and are never
    shown again. With --json the answer is the link's status.
    """
    definition = _definition(name, source, _source_settings(source_config, source_words), given)
    async with cluster_client(session.access) as requests:
        if await _is_defined(requests, name):
            raise CommandError(f"there is a link {name} already")
        await _alter(
            requests, _BROKERS, [Change(setting_of_link(name), Operation.SET, encode_definition(definition))]
        )
        status = await _until(requests, lambda found: found.links.get(name), _ANSWER_SECONDS)
    if status is None:
        raise CommandError(
            f"link {name} is made, and no broker has told of it within {_ANSWER_SECONDS:.0f} s; see "
            f"`ottla link describe {name}`"
        )
    told = "; ".join(f"{step}: {problem}" for step, problem in status.get("problems", {}).items())
    session.output.done(f"made link {name} to {source}" + (f" ({told})" if told else ""), status, name="link")


def _definition(
    name: str, source: str, settings: Mapping[str, str], given: Mapping[str, Any]
) -> LinkDefinition:
    """Raises UsageError."""
    try:
        check_name(name)
        definition = LinkDefinition(
            name=name,
            source=parse_source(source),
            topics=given["topics"],
            patterns=given["patterns"],
            excludes=given["excludes"],
            groups=None if given["no_groups"] else given["groups"],
            acls=not given["no_acls"],
            configs=not given["no_configs"],
            interval_ms=given["interval_ms"],
            bytes_per_second=given["bytes_per_second"],
            settings=settings,
        )
        return decode_definition(name, encode_definition(definition))
    except InvalidLink as problem:
        raise UsageError(str(problem)) from None


def _source_settings(file: Path | None, words: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise UsageError(f"--source-config {file}: {problem}") from None
        values = {key: each.value for key, each in parse_properties(text).items()}
    return values | pairs_of("--source-set", words)


_BROKERS: Final = Resource(ResourceType.BROKER, ALL_BROKERS)


async def _is_defined(requests: ClusterRequests, name: str) -> bool:
    found = (await describe_configs(requests, [_BROKERS]))[_BROKERS]
    if isinstance(found, ClusterError):
        raise found
    return any(each.name == setting_of_link(name) for each in found)


async def _alter(requests: ClusterRequests, resource: Resource, changes: Sequence[Change]) -> None:
    """Raises ClusterError."""
    problem = (await alter_configs(requests, {resource: changes})).get(resource)
    if problem is not None:
        raise problem
    await settled(requests, {resource: changes})


@link.command("delete", examples=("ottla link delete berlin",))
@click.argument("name")
@yes_option
@asks_cluster
async def delete(session: Session, name: str, yes: bool) -> None:
    """Remove a link whose topics were all promoted or failed over.

    Its definition, its secrets and its status go; the topics stay.
    """
    async with cluster_client(session.access) as requests:
        if not await _is_defined(requests, name):
            raise CommandError(f"there is no link {name}")
        left = await _mirror_topics(requests, name)
        if left:
            shown = ", ".join(left[:5]) + (" and others" if len(left) > 5 else "")
            raise CommandError(
                f"link {name} still fills {shown}: promote them or fail them over first, or delete the topics"
            )
        confirm(f"delete link {name}", yes)
        await _alter(requests, _BROKERS, [Change(setting_of_link(name), Operation.DELETE, None)])

        def gone(found: LinksStatus) -> dict[str, Any] | None:
            return {} if name not in found.links else None

        await _until(requests, gone, _ANSWER_SECONDS)
    session.output.done(f"deleted link {name}", {"link": name}, name="link")


async def _mirror_topics(requests: ClusterRequests, name: str) -> list[str]:
    """The topics that the link fills now, as their settings say."""
    status = await read_status(requests)
    topics = [topic for topic, value in status.topics_of(name).items() if value.get("state") not in ENDED]
    resources = [Resource(ResourceType.TOPIC, topic) for topic in topics]
    found = await describe_configs(requests, resources, names=[LINK_NAME.name]) if resources else {}
    return [
        resource.name
        for resource, entries in found.items()
        if not isinstance(entries, ClusterError)
        and any(each.name == LINK_NAME.name and each.value == name for each in entries)
    ]


async def _until(
    requests: ClusterRequests, test: Callable[[LinksStatus], dict[str, Any] | None], seconds: float
) -> dict[str, Any] | None:
    """What `test` finds in the status, None if it finds nothing in time."""

    async def look() -> dict[str, Any]:
        while True:
            found = test(await read_status(requests))
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_SECONDS)

    return await _within(look(), seconds)


async def _within(work: Awaitable[dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return None


# -- list and describe ---------------------------------------------------------------------------------------


@link.command("list", examples=("ottla link list", "ottla link list --json"))
@asks_cluster
async def list_links(session: Session) -> None:
    """Show all links.

    With --json an object a link: its definition without secrets, state, problems, topics, lag.
    """
    async with cluster_client(session.access) as requests:
        status = await read_status(requests)
    rows = []
    for name, value in sorted(status.links.items()):
        topics = status.topics_of(name)
        lags = [
            each.get("lag")
            for topic in topics.values()
            if topic.get("state") not in ENDED
            for each in topic.get("partitions", ())
        ]
        lag = None if not lags or any(each is None for each in lags) else sum(lags)
        shown = {**value, "lag": lag, "topics": sorted(topics)}
        if session.output.for_people:
            shown |= {"source": ", ".join(value.get("source", ())), "topics": len(topics)}
        rows.append(shown)
    session.output.listing(rows, _LINKS, name="link", empty="there is no link")


@link.command("describe", examples=("ottla link describe berlin",))
@click.argument("name")
@asks_cluster
async def describe(session: Session, name: str) -> None:
    """Show a link and where each partition stands: its end, the source's, the lag, what the source lost.

    With --json one object: the link's status, with its topics and their partitions.
    """
    async with cluster_client(session.access) as requests:
        status = await read_status(requests)
    found = require_link(status, name)
    topics = status.topics_of(name)
    if not session.output.for_people:
        session.output.facts({**found, "topics": list(topics.values())}, name="link")
        return
    problems = "; ".join(f"{step}: {problem}" for step, problem in found.get("problems", {}).items())
    session.output.facts(
        {
            "link": name,
            "state": found.get("state"),
            "source": ", ".join(found.get("source", ())),
            "source cluster": found.get("source_cluster_id"),
            "patterns": ", ".join((*found.get("topics", ()), *found.get("patterns", ()))),
            "problems": problems or None,
            "topics of other kinds": ", ".join(found.get("taken_topics", ())) or None,
        }
    )
    rows = [row for topic, value in topics.items() for row in partition_rows(topic, value)]
    session.output.listing(rows, _PARTITIONS, name="topic", empty="no topic is mirrored yet")


# -- promote and fail over -----------------------------------------------------------------------------------


def _ending(function: Callable[..., Any]) -> Callable[..., Any]:
    function = click.option(
        "--timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0),
        default=120.0,
        metavar="SECONDS",
        help="How long to wait for the topics. [default: 120]",
    )(function)
    function = click.argument("topics", nargs=-1)(function)
    return click.argument("name")(function)


@link.command(
    "promote",
    short_help="Make mirror topics writable once they have everything.",
    examples=("ottla link promote berlin", "ottla link promote berlin orders --json"),
)
@_ending
@asks_cluster
async def promote(session: Session, name: str, topics: tuple[str, ...], timeout_seconds: float) -> int:
    """Wait until nothing is left to copy of each topic, then cut it from its source and make it writable.

    All topics of the link, or those that are named. Stop the source's producers first. The answer tells where
    each partition stood, and which open transactions were aborted.
    """
    return await _end(session, name, topics, PROMOTE, timeout_seconds)


@link.command(
    "fail-over",
    short_help="Make mirror topics writable as they are.",
    examples=("ottla link fail-over berlin --yes",),
)
@_ending
@yes_option
@asks_cluster
async def fail_over(
    session: Session, name: str, topics: tuple[str, ...], timeout_seconds: float, yes: bool
) -> int:
    """Cut topics from their source at once and make them writable with what they have.

    What the source had and the mirror not is left behind; the answer tells how much, as far as it is known.
    """
    confirm(f"fail over {', '.join(topics) or 'all topics'} of link {name}, whatever is left to copy", yes)
    return await _end(session, name, topics, FAIL_OVER, timeout_seconds)


async def _end(
    session: Session, name: str, topics: tuple[str, ...], state: str, timeout_seconds: float
) -> int:
    """The exit code: 1 if not all topics are writable in time."""
    async with cluster_client(session.access) as requests:
        status = await read_status(requests)
        require_link(status, name)
        known = status.topics_of(name)
        wanted = topics or tuple(known)
        unknown = [each for each in wanted if each not in known]
        if unknown or not wanted:
            raise CommandError(f"link {name} has no mirror topic {', '.join(unknown)}".rstrip())
        for topic in wanted:
            if known[topic].get("state") not in ENDED:
                resource = Resource(ResourceType.TOPIC, topic)
                problem = (
                    await alter_configs(requests, {resource: [Change(LINK_STATE.name, Operation.SET, state)]})
                ).get(resource)
                if problem is not None and not await _has_ended(requests, name, topic):
                    raise problem

        def ended(found: LinksStatus) -> dict[str, Any] | None:
            of_link = found.topics_of(name)
            done = all(of_link.get(each, {}).get("state") in ENDED for each in wanted)
            return of_link if done else None

        found = await _until(requests, ended, timeout_seconds)
        if found is not None:
            await _until_writable(requests, wanted)
        now = found if found is not None else (await read_status(requests)).topics_of(name)
    _show_ends(session, {each: now.get(each, {}) for each in wanted})
    if found is not None:
        return 0
    waiting = [each for each in wanted if now.get(each, {}).get("state") not in ENDED]
    session.output.warn(
        f"not writable within {timeout_seconds:g} s: {', '.join(waiting)}; the link goes on, and `ottla link "
        f"describe {name}` shows how far it is"
    )
    return 1


async def _has_ended(requests: ClusterRequests, name: str, topic: str) -> bool:
    return (await read_status(requests)).topics_of(name).get(topic, {}).get("state") in ENDED


async def _until_writable(requests: ClusterRequests, topics: Sequence[str]) -> None:
    """Until a broker shows that the topics are mirrors no more, a second at most."""
    changes = [Change(LINK_NAME.name, Operation.DELETE, None)]
    await settled(requests, {Resource(ResourceType.TOPIC, each): changes for each in topics})


def _show_ends(session: Session, topics: Mapping[str, Mapping[str, Any]]) -> None:
    if session.output.for_people:
        rows = [row for topic, value in topics.items() for row in partition_rows(topic, value)]
        session.output.listing(rows, _ENDS, name="topic", empty="no partition")
        for topic, value in topics.items():
            for each in value.get("partitions", ()):
                for aborted in each.get("aborted", ()):
                    session.output.note(
                        f"{topic}-{each['partition']}: the open transaction of producer id "
                        f"{aborted['producer_id']} from offset {aborted['first_offset']} was aborted"
                    )
        return
    session.output.listing([dict(value, topic=topic) for topic, value in topics.items()], name="topic")
