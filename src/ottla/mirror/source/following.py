"""Lets the topics of the target follow the source's: made, given partitions, configured, and readable.

Partitions are copied only once the target has them. A topic whose partitions can't be made there (no right
to, an invalid setting) is told, tried again at the next look, and its partitions wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.admin import configs, topics
from ottla.client.admin.acls import Acl, AclFilter, ResourceType, create_acls, list_acls
from ottla.client.admin.configs import ConfigEntry, Resource
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.mirror.core import following as rules
from ottla.mirror.core.following import TopicRule
from ottla.protocol.errors import ErrorCode

_log = logging.getLogger("ottla.mirror")

_TOPIC: Final = configs.ResourceType.TOPIC


@dataclass(frozen=True, slots=True)
class FollowSettings:
    """What is followed how often, in seconds; None for never.

    source_defaults: a setting that is at its default gets the source's, not the target's.
    """

    rule: TopicRule
    replication_factor: int
    topics_seconds: float | None
    configs_seconds: float | None
    acls_seconds: float | None
    source_defaults: bool
    timeout_seconds: float


class Follower:
    """Looks at both clusters from time to time. Raises ClusterError where one can't be asked."""

    def __init__(self, source: ClusterAccess, target: ClusterAccess, settings: FollowSettings) -> None:
        self._source_access = source
        self._target_access = target
        self._settings = settings
        self._known: list[TopicPartition] | None = None
        self._next_topics = self._next_configs = self._next_acls = 0.0
        self._is_acl_told = False

    async def look(self) -> list[TopicPartition]:
        """Do what is due; the partitions to copy, all of which are on the target."""
        now = time.monotonic()
        settings = self._settings
        due = self._known is None or (settings.topics_seconds is not None and now >= self._next_topics)
        configs_due = settings.configs_seconds is not None and now >= self._next_configs
        acls_due = settings.acls_seconds is not None and now >= self._next_acls
        if not (due or configs_due or acls_due):
            return self._known or []
        source = ClusterRequests(self._source_access, settings.timeout_seconds)
        target = ClusterRequests(self._target_access, settings.timeout_seconds)
        try:
            if due:
                self._known = await self._follow_topics(source, target)
                self._next_topics = now + (settings.topics_seconds or 0.0)
            if configs_due:
                await self._follow_configs(source, target)
                self._next_configs = now + (settings.configs_seconds or 0.0)
            if acls_due:
                await self._follow_acls(source, target)
                self._next_acls = now + (settings.acls_seconds or 0.0)
        finally:
            await source.close()
            await target.close()
        return self._known or []

    # -- topics ----------------------------------------------------------------------------------------------

    async def _follow_topics(self, source: ClusterRequests, target: ClusterRequests) -> list[TopicPartition]:
        rule = self._settings.rule
        wanted = {
            name: count for name, count in (await _partition_counts(source)).items() if rule.takes(name)
        }
        there = await _partition_counts(target)
        plan = rules.topic_plan(rule.flow, wanted, there)
        if plan.create:
            there |= await self._create(source, target, plan.create)
        if plan.grow:
            outcome = await topics.grow_topics(target, plan.grow)
            grown = {name: plan.grow[name] for name, problem in outcome.items() if problem is None}
            for name, problem in outcome.items():
                if problem is not None:
                    _log.warning("%s gets no partitions on the target: %s", name, problem)
            if grown:
                _log.info("topics of the target have more partitions: %s", grown)
            await topics.settled(target, grown)
            there |= grown
        found = []
        for name, count in sorted(wanted.items()):
            copied = min(count, there.get(rule.flow.remote_topic(name), 0))
            found += [TopicPartition(name, index) for index in range(copied)]
        return found

    async def _create(
        self, source: ClusterRequests, target: ClusterRequests, new: Mapping[str, int]
    ) -> dict[str, int]:
        settings, flow = self._settings, self._settings.rule.flow
        follows = settings.rule.selections.follows
        described = await _topic_configs(source, list(new))
        wanted = []
        for name, count in new.items():
            given = rules.new_topic_configs(
                described.get(name, []), follows, source_defaults=settings.source_defaults
            )
            wanted.append(
                topics.NewTopic(flow.remote_topic(name), count, settings.replication_factor, configs=given)
            )
        made: dict[str, int] = {}
        for name, outcome in (await topics.create_topics(target, wanted)).items():
            count = next(each.partitions for each in wanted if each.name == name)
            if isinstance(outcome, ClusterError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                _log.warning("topic %s can't be made on the target: %s", name, outcome)
            else:
                made[name] = count
        await topics.settled(target, made)
        if made:
            _log.info("topics were made on the target: %s", made)
        return made

    # -- settings and rights ---------------------------------------------------------------------------------

    async def _follow_configs(self, source: ClusterRequests, target: ClusterRequests) -> None:
        settings, flow = self._settings, self._settings.rule.flow
        names = sorted({each.topic for each in self._known or ()})
        wanted = await _topic_configs(source, names)
        there = await _topic_configs(target, [flow.remote_topic(name) for name in wanted])
        changes: dict[Resource, Sequence[configs.Change]] = {}
        for name, entries in wanted.items():
            remote = flow.remote_topic(name)
            if remote not in there:
                continue
            found = rules.config_changes(
                entries,
                there[remote],
                settings.rule.selections.follows,
                source_defaults=settings.source_defaults,
            )
            if found:
                changes[Resource(_TOPIC, remote)] = found
        for resource, problem in (await configs.alter_configs(target, changes)).items() if changes else ():
            if problem is not None:
                _log.warning("the settings of %s on the target can't follow: %s", resource.name, problem)
            else:
                _log.info("the settings of %s on the target follow: %s", resource.name, changes[resource])

    async def _follow_acls(self, source: ClusterRequests, target: ClusterRequests) -> None:
        on_topics = AclFilter(resource_type=ResourceType.TOPIC)
        try:
            acls = await list_acls(source, on_topics)
        except ClusterError as problem:
            if problem.code != ErrorCode.SECURITY_DISABLED:
                raise
            if not self._is_acl_told:
                self._is_acl_told = True
                _log.info("the source has no authorizer: there are no rights to follow")
            return
        wanted = rules.followed_acls(acls, self._settings.rule)
        if not wanted:
            return
        try:
            there: set[Acl] = set(await list_acls(target, on_topics))
            missing = [each for each in wanted if each not in there]
            outcome = await create_acls(target, missing) if missing else {}
        except ClusterError as problem:
            if problem.code is None:
                raise
            _log.warning("rights on the target can't follow: %s", problem)
            return
        for acl, refused in outcome.items():
            if refused is not None:
                _log.warning("a right on the target can't follow: %s", refused)
            else:
                _log.info("a right on the target follows: %s", acl)


async def _partition_counts(cluster: ClusterRequests) -> dict[str, int]:
    return {one.name or "": len(one.partitions) for one in await cluster.topics() if not one.error_code}


async def _topic_configs(cluster: ClusterRequests, names: Sequence[str]) -> dict[str, list[ConfigEntry]]:
    """The settings of topics; those that can't be looked up are told and left out."""
    found: dict[str, list[ConfigEntry]] = {}
    if not names:
        return found
    described = await configs.describe_configs(cluster, [Resource(_TOPIC, name) for name in names])
    for resource, entries in described.items():
        if isinstance(entries, ClusterError):
            _log.warning("the settings of %s can't be looked up: %s", resource.name, entries)
        else:
            found[resource.name] = entries
    return found
