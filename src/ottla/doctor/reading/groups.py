"""Reads groups: their states at several looks, their members, their committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.groups.describing import describe_groups
from ottla.client.groups.listing import groups_by_broker
from ottla.client.groups.model import GroupDescription, GroupType, ListedGroup
from ottla.client.groups.offsets import group_offsets
from ottla.doctor.reading.drafts import Draft, answered, tell_failed
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import GroupSample, GroupView
from ottla.protocol.errors import ErrorCode

MOST_GROUPS: Final = 10_000
MORE_LOOKS: Final = 2
NOT_THERE: Final = ErrorCode.GROUP_ID_NOT_FOUND


async def read_listed_groups(look: Look, draft: Draft) -> dict[str, ListedGroup]:
    """The groups of all brokers that answer."""
    answers = await groups_by_broker(look.lane("groups"))
    found = {
        one.group_id: one
        for groups in answered(answers, "groups of broker", draft).values()
        for one in groups
    }
    if len(found) > MOST_GROUPS:
        draft.left_out.append(f"{len(found) - MOST_GROUPS:,} groups were not described")
    return {group_id: found[group_id] for group_id in sorted(found)[:MOST_GROUPS]}


async def read_commits(look: Look, draft: Draft) -> dict[str, Mapping[TopicPartition, int]]:
    """The committed offsets of each group, without share groups, whose offsets are the brokers'."""
    listed: Mapping[str, ListedGroup] = await look.need("listed_groups")
    types = {group_id: one.type for group_id, one in listed.items() if one.type is not GroupType.SHARE}
    found = await group_offsets(look.lane("groups"), types)
    there = {
        group_id: {} if isinstance(one, ClusterError) and one.code == NOT_THERE else one
        for group_id, one in found.items()
    }
    good = answered(there, "offsets of group", draft)
    return {
        group_id: {place: one.offset for place, one in offsets.items() if one.offset is not None}
        for group_id, offsets in good.items()
    }


async def read_groups(look: Look, draft: Draft) -> dict[str, GroupView]:
    """Each group, looked at three times within the sample's seconds."""
    listed: Mapping[str, ListedGroup] = await look.need("listed_groups")
    draft.left_out += look.left_out_of("listed_groups")
    types = {group_id: one.type for group_id, one in listed.items()}
    client = look.lane("groups")
    first = await describe_groups(client, types)
    commits = await look.have("commits") or {}
    draft.left_out += look.left_out_of("commits")
    described = {group_id: one for group_id, one in first.items() if isinstance(one, GroupDescription)}
    failed = [
        (group_id, one)
        for group_id, one in first.items()
        if isinstance(one, ClusterError) and one.code != NOT_THERE
    ]
    if failed and not described:
        raise failed[0][1]
    tell_failed(failed, "group", draft)
    samples = {group_id: [_sample(one)] for group_id, one in described.items()}

    def views() -> dict[str, GroupView]:
        return {
            group_id: _view(one, tuple(samples[group_id]), commits.get(group_id))
            for group_id, one in described.items()
        }

    draft.value = views()
    if look.options.sample_seconds <= 0:
        return views()
    active = {group_id: types[group_id] for group_id, one in described.items() if one.is_active}
    for _ in range(MORE_LOOKS if active else 0):
        await asyncio.sleep(look.options.sample_seconds / MORE_LOOKS)
        for group_id, again in (await describe_groups(client, active)).items():
            if isinstance(again, GroupDescription):
                samples[group_id].append(_sample(again))
                described[group_id] = again
        draft.value = views()
    return views()


def _sample(group: GroupDescription) -> GroupSample:
    return GroupSample(group.state, group.epoch, frozenset(one.member_id for one in group.members))


def _view(
    group: GroupDescription, samples: tuple[GroupSample, ...], offsets: Mapping[TopicPartition, int] | None
) -> GroupView:
    known: Any = group.owners()
    return GroupView(
        group.group_id,
        group.type,
        group.protocol_type,
        samples,
        frozenset(known),
        sum(1 for one in group.members if one.assigned is not None and not one.assigned),
        offsets,
    )
