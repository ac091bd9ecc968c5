"""One turn of a link's coordinator: topics, settings, groups' offsets and ACLs as at the source; the lag.

Each step stands for itself: one that fails (a source that does not let the link's user list ACLs) is told in
the link's status, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.controller.topic_creation import create_topics
from ottla.broker.links.mirror_settings import change_topics, set_to
from ottla.broker.links.own_cluster import OwnCluster, offsets_of
from ottla.broker.links.source import LATEST, Source, SourceMetadata, SourceUnusable
from ottla.broker.links.status_log import StatusKey, StatusLog, is_end
from ottla.broker.links.topic_ends import stop_topics
from ottla.broker.peers.peers import PeerUnreachable
from ottla.core.image.image import TOPIC_RESOURCE
from ottla.core.links.definition import LinkDefinition
from ottla.core.links.plan import (
    Acl,
    GroupOffset,
    NewTopic,
    Progress,
    may_stop,
    mirrors_of,
    plan_acls,
    plan_configs,
    plan_offsets,
    plan_topics,
)
from ottla.core.links.status import topic_status
from ottla.core.links.topic_state import MirrorState
from ottla.core.settings.link_settings import LINK_NAME, LINK_SOURCE_ID, PROMOTE, STOPPED
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from ottla.protocol.messages.describe_acls_request import DescribeAclsRequest
from ottla.protocol.messages.describe_acls_response import DescribeAclsResponse
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_configs_response import DescribeConfigsResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

log = logging.getLogger("ottla.broker.links")

DYNAMIC_TOPIC_CONFIG: Final = 1
ANY: Final = 1
GROUP: Final = 0
TOPICS_A_REQUEST: Final = 500
GROUPS_A_REQUEST: Final = 100
_MEMBERS_HERE: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
)
#: A step: its name, and what it does.
Step = tuple[str, Callable[[], Awaitable[None]]]


class LinkSync:
    """What is remembered between the turns of one link's coordinator: little, and nothing that matters."""

    def __init__(self, node: LinksNode, link: LinkDefinition, source: Source, status: StatusLog) -> None:
        self._node = node
        self._link = link
        self._source = source
        self._status = status
        self._own = OwnCluster(node)
        self._seen: SourceMetadata | None = None
        self._problems: dict[str, str] = {}
        self._progress: dict[str, dict[int, Progress]] = {}
        self._caught_up_at: dict[tuple[str, int], float] = {}
        self._taken: tuple[str, ...] = ()
        self._has_acls = True

    @property
    def is_promoting(self) -> bool:
        """Whether somebody waits for a promotion."""
        return any(each.state == PROMOTE for each in self._mirrors().values())

    def known_epochs(self, topic: str) -> dict[int, int]:
        """The leader epochs of the source's partitions as they were seen last."""
        known = self._source.known
        found = known.topics.get(topic) if known is not None else None
        if found is None:
            return {}
        return {
            index: each.leader_epoch for index, each in found.partitions.items() if each.leader_epoch >= 0
        }

    async def source_ends(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The source's ends, now if it answers soon, else as they were seen last."""
        last = {
            index: each.source_end
            for index, each in self._progress.get(topic, {}).items()
            if each.source_end is not None
        }
        try:
            async with asyncio.timeout(2.0):
                found = await self._source.offsets([(topic, each) for each in partitions], LATEST)
        except (TimeoutError, SourceUnusable):
            found = {}
        return last | {index: offset for (_, index), offset in found.items()}

    def _mirrors(self) -> dict[str, MirrorState]:
        return mirrors_of(self._node.image, self._link.name)

    def _copied(self) -> list[str]:
        """The mirror topics that still follow their source."""
        return [name for name, state in self._mirrors().items() if not state.is_stopped]

    async def turn(self) -> None:
        """Look at the source once, and follow it. Raises KafkaError for a status that is not written."""
        try:
            self._seen = await self._source.metadata()
            self._problems.pop("source", None)
        except SourceUnusable as problem:
            self._problems["source"] = str(problem)
            await self._publish()
            return
        steps: list[Step] = [("topics", self._sync_topics)]
        if self._link.configs:
            steps.append(("configs", self._sync_configs))
        steps += [("progress", self._look_at_progress), ("promotion", self._promote)]
        if self._link.groups is not None:
            steps.append(("groups", self._sync_groups))
        if self._link.acls:
            steps.append(("acls", self._sync_acls))
        for name, step in steps:
            try:
                await step()
                self._problems.pop(name, None)
            except (KafkaError, SourceUnusable, PeerUnreachable) as problem:
                text = str(problem)
                if self._problems.get(name) != text:
                    log.warning("a link's turn failed link=%s step=%s reason=%s", self._link.name, name, text)
                self._problems[name] = text
        await self._publish()

    # -- topics -----------------------------------------------------------------------------------------

    async def _sync_topics(self) -> None:
        assert self._seen is not None
        done = [topic for topic, value in self._status.topics_of(self._link.name) if is_end(value)]
        plan = plan_topics(self._node.image, self._link, self._seen.topics, done)
        self._taken = plan.taken
        if plan.create:
            await self._create(plan.create)
        if plan.grow:
            await self._own.grow(plan.grow)

    async def _create(self, topics: Sequence[NewTopic]) -> None:
        configs = await self._source_configs([each.name for each in topics]) if self._link.configs else {}
        wanted = []
        for each in topics:
            values = {
                name: value
                for name, value in plan_configs(configs.get(each.name, {}), {}).items()
                if value is not None
            }
            values |= {LINK_NAME.name: self._link.name, LINK_SOURCE_ID.name: each.source_id}
            wanted.append(
                CreatableTopic(
                    name=each.name,
                    num_partitions=each.partitions,
                    replication_factor=-1,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in values.items()],
                )
            )
        answer = await create_topics(self._node, wanted)
        for result in answer.topics:
            if result.error_code != ErrorCode.NONE:
                log.warning(
                    "a mirror topic was not made link=%s topic=%s error=%s %s",
                    self._link.name, result.name, ErrorCode(result.error_code).name, result.error_message,
                )  # fmt: skip

    async def _source_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The topics' own settings at the source; topics that it does not tell of are left out."""
        found: dict[str, dict[str, str]] = {}
        for first in range(0, len(topics), TOPICS_A_REQUEST):
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=TOPIC_RESOURCE, resource_name=each, configuration_keys=None
                    )
                    for each in topics[first : first + TOPICS_A_REQUEST]
                ],
                include_synonyms=False,
                include_documentation=False,
            )
            answer = await self._source.ask_any(request, DescribeConfigsResponse)
            for result in answer.results:
                if result.error_code == ErrorCode.NONE:
                    found[result.resource_name] = {
                        each.name: each.value
                        for each in result.configs
                        if each.config_source == DYNAMIC_TOPIC_CONFIG and each.value is not None
                    }
        return found

    async def _sync_configs(self) -> None:
        copied = self._copied()
        source = await self._source_configs(copied)
        changes = {}
        for topic in copied:
            if topic in source:
                here = self._node.image.configs.get((TOPIC_RESOURCE, topic), {})
                wanted = plan_configs(source[topic], here)
                if wanted:
                    changes[topic] = set_to(wanted)
        for topic, refusal in (await change_topics(self._node, changes) if changes else {}).items():
            log.warning("settings of a mirror not taken over topic=%s reason=%s", topic, refusal)

    # -- progress and promotion -------------------------------------------------------------------------

    async def _look_at_progress(self) -> None:
        image = self._node.image
        keys = [
            (name, index)
            for name in self._mirrors()
            for index in (image.topics[name].partitions if name in image.topics else ())
        ]
        # The source first: a mirror that has all that it had then has lacked nothing.
        source = await self._source.offsets(keys, LATEST)
        own = await self._own.ends(keys)
        now = self._node.loop.time()
        progress: dict[str, dict[int, Progress]] = {}
        for name, index in keys:
            known = Progress(source.get((name, index)), own.get((name, index)))
            progress.setdefault(name, {})[index] = known
            if known.lag == 0:
                self._caught_up_at[name, index] = now
            else:
                self._caught_up_at.setdefault((name, index), now)
        self._progress = progress

    async def _promote(self) -> None:
        image = self._node.image
        ready = {}
        for name, state in self._mirrors().items():
            if state.state == PROMOTE and name in image.topics:
                partitions = list(image.topics[name].partitions)
                if may_stop(state, partitions, self._progress.get(name, {})):
                    ready[name] = self.known_epochs(name)
        for topic, refusal in (await stop_topics(self._node, ready, STOPPED)).items():
            log.warning("a mirror topic was not stopped topic=%s reason=%s", topic, refusal)

    # -- groups -----------------------------------------------------------------------------------------

    async def _sync_groups(self) -> None:
        assert self._seen is not None
        mirrors = set(self._mirrors())  # those that have just stopped, too: their last offsets come along
        if not mirrors:
            return
        source = await self._source_offsets(self._seen, mirrors)
        ends = {
            (name, index): each.end
            for name, of_topic in self._progress.items()
            for index, each in of_topic.items()
            if each.end is not None
        }
        if not source:
            return
        for coordinator, groups in (await self._own.coordinators(list(source))).items():
            here = await self._own.group_offsets(coordinator, groups)
            for group in groups:
                changes = plan_offsets(source[group], here.get(group, {}), ends)
                if not changes:
                    continue
                refused = [
                    code
                    for code in await self._own.commit(coordinator, group, changes)
                    if code not in _MEMBERS_HERE
                ]
                if refused:
                    log.warning("offsets of a group not taken over group=%s error=%s", group, refused[0].name)

    async def _source_offsets(
        self, seen: SourceMetadata, mirrors: set[str]
    ) -> dict[str, dict[tuple[str, int], GroupOffset]]:
        """The offsets that groups have committed at the source in mirrored topics."""
        names: list[str] = []
        for address in seen.brokers.values():
            answer = await self._source.ask(
                address, ListGroupsRequest(), ListGroupsResponse, purpose="groups"
            )
            # Groups of Connect's workers commit nothing; share groups have no such offsets.
            names += [
                each.group_id
                for each in answer.groups
                if each.protocol_type in ("consumer", "")
                and each.group_type.lower() in ("classic", "consumer", "")
                and self._link.selects_group(each.group_id)
            ]
        topic_names = {topic.topic_id: topic.name for topic in seen.topics.values()}
        found: dict[str, dict[tuple[str, int], GroupOffset]] = {}
        for coordinator, groups in (await self._source_coordinators(sorted(set(names)))).items():
            address_of = seen.brokers.get(coordinator)
            if address_of is None:
                continue
            for first in range(0, len(groups), GROUPS_A_REQUEST):
                request = OffsetFetchRequest(
                    groups=[
                        OffsetFetchRequestGroup(group_id=each, topics=None)
                        for each in groups[first : first + GROUPS_A_REQUEST]
                    ],
                    require_stable=False,
                )
                offsets = await self._source.ask(address_of, request, OffsetFetchResponse, purpose="groups")
                for group, each_offsets in offsets_of(offsets, topic_names).items():
                    kept = {key: value for key, value in each_offsets.items() if key[0] in mirrors}
                    if kept:
                        found[group] = kept
        return found

    async def _source_coordinators(self, groups: Sequence[str]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for first in range(0, len(groups), GROUPS_A_REQUEST):
            request = FindCoordinatorRequest(
                key_type=GROUP, coordinator_keys=list(groups[first : first + GROUPS_A_REQUEST])
            )
            answer = await self._source.ask_any(request, FindCoordinatorResponse)
            for each in answer.coordinators:
                if each.error_code == ErrorCode.NONE:
                    found.setdefault(each.node_id, []).append(each.key)
        return found

    # -- ACLs -------------------------------------------------------------------------------------------

    async def _sync_acls(self) -> None:
        if self._node.config.authorizer is None or not self._has_acls:
            return
        request = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        answer = await self._source.ask_any(request, DescribeAclsResponse)
        if answer.error_code == ErrorCode.SECURITY_DISABLED:
            self._has_acls = False  # it has no authorizer, and gets none without a restart
            return
        if answer.error_code != ErrorCode.NONE:
            raise SourceUnusable(f"ACLs: {ErrorCode(answer.error_code).name} {answer.error_message or ''}")
        source = {
            Acl(
                resource.resource_type, resource.resource_name, resource.pattern_type,
                each.principal, each.host, each.operation, each.permission_type,
            )
            for resource in answer.resources
            for each in resource.acls
        }  # fmt: skip
        add, remove = plan_acls(source, self._own.acls(), self._copied())
        for refusal in await self._own.change_acls(add, remove):
            log.warning("ACLs of a link not taken over link=%s reason=%s", self._link.name, refusal)

    # -- status -----------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        image = self._node.image
        now, now_ms = self._node.loop.time(), self._node.now_ms()
        mirrors = self._mirrors()
        values: dict[StatusKey, dict[str, Any] | None] = {
            (self._link.name, None): {
                **self._link.shown(),
                "source_cluster_id": self._seen.cluster_id if self._seen is not None else None,
                "state": "problem" if "source" in self._problems else "active",
                "problems": dict(sorted(self._problems.items())),
                "taken_topics": list(self._taken),
                "at_ms": now_ms,
            }
        }
        for name, state in mirrors.items():
            if name not in image.topics or state.is_stopped:
                continue
            progress = self._progress.get(name, {})
            lag_ms = {
                index: 0
                if each.lag == 0
                else round((now - self._caught_up_at.get((name, index), now)) * 1_000)
                for index, each in progress.items()
            }
            partitions = list(image.topics[name].partitions)
            shown = topic_status(self._link.name, name, state, partitions, progress, lag_ms)
            values[self._link.name, name] = {**shown, "at_ms": now_ms}
        for name, value in self._status.topics_of(self._link.name):
            if name not in mirrors and not is_end(value):
                values[self._link.name, name] = None
        await self._status.write(values)
