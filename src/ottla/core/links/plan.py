"""What a link's coordinator has to change here, so that topics, settings, groups and ACLs are the source's.

Functions from what was seen of both clusters to changes; nothing is remembered in between, so whoever takes
over from a coordinator that died goes on from what is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.core.image.image import TOPIC_RESOURCE, MetadataImage
from ottla.core.links.definition import LinkDefinition
from ottla.core.links.topic_state import MirrorState, mirror_state
from ottla.core.settings.link_settings import FAIL_OVER, LINK_PREFIX, PROMOTE
from ottla.core.settings.topic_settings import TOPIC_SETTINGS

#: Names of settings for storage that is not there begin so, those that name this cluster's brokers end so.
_OF_OTHER_STORAGE: Final = ("remote.", "local.")
_OF_BROKERS: Final = ".throttled.replicas"
MAX_NEW_TOPICS: Final = 50
"""Topics that are made in one turn."""


class SourcePartition(NamedTuple):
    """A partition of the source: its leader (-1 for none) and the leader's epoch."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic of the source; partitions by number."""

    name: str
    topic_id: str
    partitions: Mapping[int, SourcePartition]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A mirror topic to make."""

    name: str
    source_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Changes of topics.

    taken: topics that exist here and are no mirrors of the link: they are left alone, and told.
    """

    create: tuple[NewTopic, ...]
    grow: Mapping[str, int]
    taken: tuple[str, ...]


def mirrors_of(image: MetadataImage, link: str) -> dict[str, MirrorState]:
    """The mirror topics of a link. Raises MalformedState."""
    found: dict[str, MirrorState] = {}
    for (resource_type, name), values in image.configs.items():
        if resource_type == TOPIC_RESOURCE and name in image.topics:
            state = mirror_state(values)
            if state is not None and state.link == link:
                found[name] = state
    return found


def plan_topics(
    image: MetadataImage,
    link: LinkDefinition,
    source: Mapping[str, SourceTopic],
    done: Collection[str],
) -> TopicPlan:
    """The topics to make and to grow. done: those that were promoted, and are nobody's mirror any more."""
    mirrors = mirrors_of(image, link.name)
    create: list[NewTopic] = []
    grow: dict[str, int] = {}
    taken: list[str] = []
    for name, topic in sorted(source.items()):
        state = mirrors.get(name)
        if state is None:
            if not link.selects(name) or name in done:
                continue
            if name in image.topics:
                taken.append(name)
            elif len(create) < MAX_NEW_TOPICS and set(topic.partitions) == set(range(len(topic.partitions))):
                create.append(NewTopic(name, topic.topic_id, len(topic.partitions)))
        elif (
            not state.is_stopped
            and state.source_id == topic.topic_id
            and len(topic.partitions) > len(image.topics[name].partitions)
        ):
            grow[name] = len(topic.partitions)
    return TopicPlan(tuple(create), grow, tuple(taken))


def plan_configs(source: Mapping[str, str], here: Mapping[str, str]) -> dict[str, str | None]:
    """The changes, None to remove, that make a mirror's own settings those of the source's topic."""
    wanted = {name: value for name, value in source.items() if name in TOPIC_SETTINGS}
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if not _is_kept(name) and here.get(name) != value
    }
    changes.update(
        dict.fromkeys(
            name
            for name in here
            if name not in wanted and not _is_kept(name) and not name.startswith(LINK_PREFIX)
        )
    )
    return changes


def _is_kept(name: str) -> bool:
    """Whether a setting of a mirror is this cluster's own."""
    return name.startswith(_OF_OTHER_STORAGE) or name.endswith(_OF_BROKERS)


class GroupOffset(NamedTuple):
    """A committed offset as it is stored."""

    offset: int
    leader_epoch: int
    metadata: str


def plan_offsets(
    source: Mapping[tuple[str, int], GroupOffset],
    here: Mapping[tuple[str, int], GroupOffset],
    ends: Mapping[tuple[str, int], int],
) -> dict[tuple[str, int], GroupOffset]:
    """The offsets of a group to commit here.

    One that the mirror has not reached is committed at the mirror's end for now: a consumer that goes on here
    reads on from there, and misses nothing. Partitions without a known end wait. A group that is further here
    than at the source has moved: its offsets are its own.
    """
    changes: dict[tuple[str, int], GroupOffset] = {}
    for key, wanted in source.items():
        end = ends.get(key)
        if end is None or wanted.offset < 0:
            continue
        if wanted.offset > end:
            wanted = GroupOffset(end, -1, wanted.metadata)
        own = here.get(key)
        if own is None or (own != wanted and own.offset <= wanted.offset):
            changes[key] = wanted
    return changes


class Acl(NamedTuple):
    """An ACL: the fields of its record."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


TOPIC_ACL: Final = 2
GROUP_ACL: Final = 3
LITERAL: Final = 3


def plan_acls(
    source: Collection[Acl], here: Collection[Acl], mirrors: Collection[str]
) -> tuple[list[Acl], list[Acl]]:
    """The ACLs to add and to remove here.

    Those of mirror topics by their names are the source's, no more and no less. Those of groups, and those by
    prefix or for all names, are added, and never removed: they concern this cluster's own topics, too.
    """
    wanted = {each for each in source if each.resource_type in (TOPIC_ACL, GROUP_ACL)}
    own = set(here)
    literal = {
        each
        for each in wanted
        if each.resource_type == TOPIC_ACL and each.pattern_type == LITERAL and each.resource_name != "*"
    }
    wide = wanted - literal
    add = [each for each in sorted(wide) if each not in own]
    add += [each for each in sorted(literal) if each.resource_name in mirrors and each not in own]
    remove = [
        each
        for each in sorted(own)
        if each.resource_type == TOPIC_ACL
        and each.pattern_type == LITERAL
        and each.resource_name in mirrors
        and each not in literal
    ]
    return add, remove


class Progress(NamedTuple):
    """Where a partition stands: the source's end, and the mirror's; None where it is not known."""

    source_end: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """How many offsets are left to copy."""
        if self.source_end is None or self.end is None:
            return None
        return max(0, self.source_end - self.end)


def may_stop(state: MirrorState, partitions: Sequence[int], progress: Mapping[int, Progress]) -> bool:
    """Whether a topic may leave its source now.

    A fail-over always, a promotion once nothing of any partition is left to copy. The source's end must have
    been asked for before the mirror's; a partition that failed has none that counts, so it needs a fail-over.
    """
    if state.state == FAIL_OVER:
        return True
    if state.state != PROMOTE:
        return False
    return all(
        index in progress and progress[index].lag == 0 and state.failure_of(index) is None
        for index in partitions
    )
