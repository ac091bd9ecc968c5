"""The topics that a command of `ottla topic` acts on: by name, pattern, expression, or state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import click

from ottla.cli.cluster.outcomes import Outcomes, no_such_topic
from ottla.cli.frame.completing import complete_topics
from ottla.cli.frame.confirming import confirm
from ottla.client.admin.configs import Resource, ResourceType, describe_configs
from ottla.client.admin.descriptions import moving_replicas
from ottla.client.admin.names import choose, is_pattern
from ottla.client.admin.topic_state import PartitionState, TopicState, Trouble, has_trouble
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, topic_error
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata_response import MetadataResponseTopic

TOPICS_A_REQUEST: Final = 200
MIN_ISR: Final = "min.insync.replicas"

names_argument = click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_topics)
some_names = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics
)
regex_option = click.option("--regex", metavar="EXPR", help="Also topics whose whole name matches.")
if_exists_option = click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
validate_only_option = click.option(
    "--validate-only", is_flag=True, help="Only find out whether the cluster would do it."
)


async def chosen_topics(
    requests: ClusterRequests,
    names: Sequence[str],
    regex: str | None,
    outcomes: Outcomes | None = None,
    *,
    internal: bool,
    if_exists: bool = False,
) -> list[MetadataResponseTopic]:
    """The topics that the names, patterns and expression mean, sorted by name.

    internal: whether patterns mean internal topics too. A plain name that does not exist is told to
    `outcomes`, unless `if_exists`; raised if there are none. Raises UserError.
    """
    if names and regex is None and not any(map(is_pattern, names)):
        topics = await requests.topics(dict.fromkeys(names))
    else:
        topics = await requests.topics()
    there = {one.name: one for one in topics if one.name and not one.error_code}
    plain = set(names)
    chosen = choose(names, there, regex)
    if chosen.missing and not if_exists:
        known = [one.name for one in await requests.topics() if one.name]
        problems = [_missing(name, topics, known) for name in chosen.missing]
        if outcomes is None:
            raise problems[0]
        for problem in problems:
            outcomes.failed(problem)
    return [there[name] for name in chosen.found if internal or name in plain or not there[name].is_internal]


def _missing(name: str, topics: Iterable[MetadataResponseTopic], known: Collection[str]) -> ClusterError:
    """Why a topic can't be acted on: it does not exist, or the client may not see it."""
    for one in topics:
        if one.name == name and one.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return topic_error(name, one.error_code)
    return no_such_topic(name, known)


async def in_trouble(
    requests: ClusterRequests, topics: Sequence[Any], troubles: Sequence[Trouble]
) -> list[tuple[Any, list[PartitionState]]]:
    """Each topic with its partitions that are in one of the states."""
    brokers = (await requests.cluster()).brokers
    moving = await moving_replicas(requests) if Trouble.UNDER_REPLICATED in troubles else {}
    min_isrs: dict[str, int] = {}
    if not {Trouble.UNDER_MIN_ISR, Trouble.AT_MIN_ISR}.isdisjoint(troubles):
        min_isrs = await _min_isrs(requests, [one.name or "" for one in topics])
    return [
        (
            one,
            [
                partition
                for partition in partitions_of(one)
                if any(
                    has_trouble(
                        partition,
                        trouble,
                        live_brokers=brokers,
                        min_isr=min_isrs.get(one.name or "", 1),
                        adding=moving.get((one.name or "", partition.partition_index), ()),
                    )
                    for trouble in troubles
                )
            ],
        )
        for one in topics
    ]


async def _min_isrs(requests: ClusterRequests, names: Sequence[str]) -> dict[str, int]:
    resources = [Resource(ResourceType.TOPIC, name) for name in names]
    found: dict[str, int] = {}
    for resource, entries in (await describe_configs(requests, resources, names=[MIN_ISR])).items():
        if isinstance(entries, ClusterError):
            raise entries
        for entry in entries:
            found[resource.name] = int(entry.value or 1)
    return found


def confirm_pattern(
    verb: str, topics: Sequence[TopicState], names: Sequence[str], regex: str | None, yes: bool
) -> None:
    """Ask, where a pattern chose the topics. Raises UserError for a no."""
    if regex is None and not any(map(is_pattern, names)):
        return
    if not topics:
        raise UserError("no topic matches")
    shown = ", ".join(one.name or "" for one in topics[:5]) + (", …" if len(topics) > 5 else "")
    partitions = sum(len(one.partitions) for one in topics)
    confirm(f"{verb} {counted(len(topics), 'topic')} with {counted(partitions, 'partition')} ({shown})", yes)


def pages(items: Sequence[Any]) -> list[Sequence[Any]]:
    """The items in parts of at most TOPICS_A_REQUEST."""
    return [items[start : start + TOPICS_A_REQUEST] for start in range(0, len(items), TOPICS_A_REQUEST)]


def partitions_of(topic: TopicState) -> list[PartitionState]:
    """The partitions in the order of their numbers."""
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def key_of(topic: TopicState, partition: PartitionState) -> TopicPartition:
    """The partition's topic and number."""
    return TopicPartition(topic.name or "", partition.partition_index)


def counted(count: int, noun: str) -> str:
    """`1 topic`, `2,000 topics`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
