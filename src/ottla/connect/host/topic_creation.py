"""Topics that a source connector creates before it first writes to them, by groups of settings (KIP-158)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.connect.host.errors import TaskFailed
from ottla.connect.host.settings import CREATION_GROUPS

PREFIX: Final = "topic.creation."
DEFAULT_GROUP: Final = "default"
_PARTITIONS: Final = "partitions"
_REPLICAS: Final = "replication.factor"
_INCLUDE: Final = "include"
_EXCLUDE: Final = "exclude"
_OWN: Final = frozenset({_PARTITIONS, _REPLICAS, _INCLUDE, _EXCLUDE})
_MAX_NUMBER: Final = 100_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreationGroup:
    """Topics that are created alike."""

    name: str
    include: re.Pattern[str]
    exclude: re.Pattern[str] | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        """Whether a topic is of this group."""
        if self.exclude is not None and self.exclude.fullmatch(topic):
            return False
        return self.include.fullmatch(topic) is not None

    def topic(self, name: str) -> Topic:
        """A topic of this group."""
        return Topic(name, self.partitions, self.replication_factor, self.configs)


def creation_groups(config: Mapping[str, str], settings: Settings) -> tuple[CreationGroup, ...]:
    """The groups in the order in which they are tried, the default one last; none if it isn't configured.

    Raises ConfigError.
    """
    default = _texts(config, DEFAULT_GROUP)
    if _PARTITIONS not in default and _REPLICAS not in default:
        return ()
    for name in (_REPLICAS, _PARTITIONS):
        if name not in default:
            raise ConfigError(
                f'Missing required configuration "{PREFIX}{DEFAULT_GROUP}.{name}" which has no default value.'
            )
    names = [name for name in settings[CREATION_GROUPS] if name != DEFAULT_GROUP]
    named = [_group(name, _texts(config, name), default) for name in names]
    return (*named, _group(DEFAULT_GROUP, {_INCLUDE: ".*", **default}, default))


def _texts(config: Mapping[str, str], group: str) -> dict[str, str]:
    prefix = f"{PREFIX}{group}."
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _group(name: str, texts: Mapping[str, str], default: Mapping[str, str]) -> CreationGroup:
    include, exclude = _pattern(name, _INCLUDE, texts), _pattern(name, _EXCLUDE, texts)
    if include is None:
        include = re.compile(r"(?!)")  # a group without patterns has no topics
    return CreationGroup(
        name,
        include,
        exclude,
        _number(name, _PARTITIONS, texts.get(_PARTITIONS, default[_PARTITIONS])),
        _number(name, _REPLICAS, texts.get(_REPLICAS, default[_REPLICAS])),
        {key: value for key, value in texts.items() if key not in _OWN},
    )


def _pattern(group: str, name: str, texts: Mapping[str, str]) -> re.Pattern[str] | None:
    patterns = [each.strip() for each in texts.get(name, "").split(",") if each.strip()]
    if not patterns:
        return None
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except (re.error, RecursionError, OverflowError) as problem:
        raise ConfigError(f"{PREFIX}{group}.{name}: Syntax error in regular expression: {problem}") from None


def _number(group: str, name: str, text: str) -> int:
    text = text.strip()
    if text == "-1" or (text.isdecimal() and len(text) < 7 and 0 < int(text) <= _MAX_NUMBER):
        return int(text)
    raise ConfigError(
        f"{PREFIX}{group}.{name}={text}: it must be positive, or -1 to use the broker's default"
    )


class TopicCreation:
    """Makes topics of the groups when they are first written to; each is looked for once."""

    def __init__(self, groups: tuple[CreationGroup, ...], cluster: Callable[[], KafkaCluster]) -> None:
        self._groups = groups
        self._cluster = cluster
        self._known: set[str] = set()

    def require(self, topic: str) -> None:
        """The topic is there from now on. Raises TaskFailed."""
        if not self._groups or topic in self._known:
            return
        group = next(each for each in self._groups if each.matches(topic) or each.name == DEFAULT_GROUP)
        wanted = group.topic(topic)
        try:
            cluster = self._cluster()
            if cluster.missing_topics([topic]):
                cluster.ensure_topics([wanted])
                _log.info("created topic %s with the settings of group %s", topic, group.name)
        except ClusterError as problem:
            raise TaskFailed(
                f"Task failed to create new topic {topic}. Ensure that the task is authorized to create "
                f"topics or that the topic exists and restart the task: {problem}"
            ) from problem
        self._known.add(topic)
