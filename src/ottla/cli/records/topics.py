"""Topics and partitions as a command line names them, found in the cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.cli.frame.errors import did_you_mean
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, topic_error
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.config.errors import UsageError

MOST_PARTITIONS: Final = 1_000_000
_PART: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


def parse_partitions(text: str) -> set[int]:
    """Numbers of partitions: `0,3,5-9`. Raises UsageError."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{text!r} are no partitions: give numbers, as in 0,3,5-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > MOST_PARTITIONS:
            raise UsageError(f"{part!r} is no range of partitions")
        found.update(range(first, last + 1))
    return found


async def partitions_of(
    cluster: ClusterRequests, names: Sequence[str], *, is_pattern: bool, chosen: set[int] | None
) -> list[TopicPartition]:
    """The partitions of the topics. is_pattern: names are regular expressions; `^` begins one anyway.

    Raises UserError for a topic or partition that is not there.
    """
    patterns = [_pattern(name) for name in names if is_pattern or name.startswith("^")]
    plain = [] if is_pattern else [name for name in names if not name.startswith("^")]
    found: list[TopicPartition] = []
    if patterns:
        everything = {topic.name or "": topic for topic in await cluster.topics() if not topic.error_code}
        fitting = sorted(
            name
            for name, topic in everything.items()
            if any(pattern.search(name) for pattern in patterns) and not topic.is_internal
        )
        if not fitting and not plain:
            raise NoSuchTopic(f"no topic matches {' or '.join(pattern.pattern for pattern in patterns)}")
        described = [everything[name] for name in fitting if name not in plain]
    else:
        described = []
    if plain:
        described = [*await cluster.topics(dict.fromkeys(plain)), *described]
    for topic in described:
        name = topic.name or ""
        if topic.error_code:
            raise await missing_topic(cluster, topic_error(name, topic.error_code), name)
        indexes = {each.partition_index for each in topic.partitions}
        wanted = indexes if chosen is None else chosen
        if wanted - indexes:
            raise ClusterError(
                f"topic {name} has no partition {min(wanted - indexes)}, only {len(indexes)} of them"
            )
        found += [TopicPartition(name, index) for index in sorted(wanted)]
    return found


async def missing_topic(cluster: ClusterRequests, error: ClusterError, name: str) -> ClusterError:
    """The error, with a similar name if there is one."""
    if not isinstance(error, NoSuchTopic):
        return error
    known = [topic.name or "" for topic in await cluster.topics()]
    return NoSuchTopic(f"{error}{did_you_mean(name, known)}", error.code)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise UsageError(f"{text!r} is no regular expression: {problem}") from None
