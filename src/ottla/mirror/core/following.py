"""What has to be done on the target so that its topics, settings and rights follow the source's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.client.admin.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.client.admin.configs import Change, ConfigEntry, ConfigSource
from ottla.client.admin.configs import Operation as ConfigOperation
from ottla.mirror.core.patterns import Selections
from ottla.mirror.core.policies import Flow, is_cycle, is_heartbeats_topic, is_internal_topic


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Which topics of the source a flow copies. heartbeats: those of heartbeats too, whatever is selected."""

    flow: Flow
    selections: Selections
    heartbeats: bool = True

    def takes(self, topic: str) -> bool:
        """Whether a topic is copied. Raises DataError for a pattern that takes too long."""
        policy = self.flow.policy
        if is_internal_topic(policy, topic) or is_cycle(policy, topic, self.flow.target_alias):
            return False
        return self.selections.topics.takes(topic) or (self.heartbeats and is_heartbeats_topic(policy, topic))


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Topics of the target to make, by the source's topic, and to give more partitions."""

    create: Mapping[str, int]
    grow: Mapping[str, int]


def topic_plan(flow: Flow, source: Mapping[str, int], target: Mapping[str, int]) -> TopicPlan:
    """The plan for topics with so many partitions on the source and on the target, by their names there.

    A topic that has more partitions on the target keeps them.
    """
    create: dict[str, int] = {}
    grow: dict[str, int] = {}
    for topic, partitions in source.items():
        remote = flow.remote_topic(topic)
        there = target.get(remote)
        if there is None:
            create[topic] = partitions
        elif there < partitions:
            grow[remote] = partitions
    return TopicPlan(create, grow)


def followed(entries: Iterable[ConfigEntry], follows: Callable[[str], bool]) -> list[ConfigEntry]:
    """The settings of a topic that the target's is to have, defaults too."""
    return [
        each
        for each in entries
        if not each.read_only
        and not each.sensitive
        and each.source is not ConfigSource.SERVER_PROPERTIES
        and follows(each.name)
    ]


def new_topic_configs(
    entries: Iterable[ConfigEntry], follows: Callable[[str], bool], *, source_defaults: bool
) -> dict[str, str | None]:
    """The settings that a topic is made with on the target."""
    return {
        each.name: each.value for each in followed(entries, follows) if source_defaults or not each.is_default
    }


def config_changes(
    source: Sequence[ConfigEntry],
    target: Sequence[ConfigEntry],
    follows: Callable[[str], bool],
    *,
    source_defaults: bool,
) -> list[Change]:
    """The changes that let a topic of the target follow; none where it does."""
    there = {each.name: each for each in target}
    changes = []
    for each in followed(source, follows):
        now = there.get(each.name)
        own = now is not None and now.source is ConfigSource.TOPIC
        if each.is_default and not source_defaults:
            if own:
                changes.append(Change(each.name, ConfigOperation.DELETE))
        elif now is None or now.value != each.value or (not own and now.value is None):
            changes.append(Change(each.name, ConfigOperation.SET, each.value))
    return changes


def followed_acls(acls: Iterable[Acl], rule: TopicRule) -> list[Acl]:
    """The rights on the target for those on topics of the source.

    Rights of single topics alone; never to write, for the mirror alone writes there; the right to everything
    becomes that to read.
    """
    found = []
    for each in acls:
        if (
            each.resource_type is not ResourceType.TOPIC
            or each.pattern_type is not PatternType.LITERAL
            or not rule.takes(each.resource_name)
        ):
            continue
        operation = each.operation
        if each.permission is Permission.ALLOW:
            if operation is Operation.WRITE:
                continue
            if operation is Operation.ALL:
                operation = Operation.READ
        found.append(
            each._replace(resource_name=rule.flow.remote_topic(each.resource_name), operation=operation)
        )
    return found
