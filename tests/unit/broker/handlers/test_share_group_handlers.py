"""The share group APIs of a running broker: what its features and settings change about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ottla.core.image.features import SHARE_VERSION
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

SMALL = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}


async def heartbeat(client: RawClient, epoch: int, *topics: str, member: str = "m1") -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    return await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)


async def coordinator_is_ready(client: RawClient) -> None:
    async with asyncio.timeout(10):
        while True:
            await client.call(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(coordinator_keys=["g"]))
            request = ShareGroupDescribeRequest(group_ids=["g"])
            answer: Any = await client.call(ApiKey.SHARE_GROUP_DESCRIBE, 1, request)
            if answer.groups[0].error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                return
            await asyncio.sleep(0.01)


def test_without_share_version_nothing_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", SMALL) as broker:
            client = await connect(broker)
            # given
            off = FeatureUpdateKey(feature=SHARE_VERSION, max_version_level=0, upgrade_type=2)
            update = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[off])
            updated: Any = await client.call(ApiKey.UPDATE_FEATURES, 1, update)
            assert updated.error_code == ErrorCode.NONE, updated
            # when
            wanted = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
            answers: list[Any] = [
                await heartbeat(client, 0, "t"),
                await client.call(91, 0, AlterShareGroupOffsetsRequest(group_id="g")),
                await client.call(92, 0, DeleteShareGroupOffsetsRequest(group_id="g")),
            ]
            for key, request in (
                (ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(group_ids=["g"])),
                (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest(groups=[wanted])),
            ):
                answer: Any = await client.call(key, 1, request)
                answers += answer.groups
            # then
            assert [answer.error_code for answer in answers] == [ErrorCode.UNSUPPORTED_VERSION] * 5
            client.close()

    asyncio.run(scenario())


def test_members_are_told_the_settings_of_their_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {**SMALL, "group.share.heartbeat.interval.ms": "6000", "group.share.max.size": "1"}
        async with running_broker(tmp_path / "data", settings) as broker:
            client = await connect(broker)
            await create_topic(broker, "t")
            await coordinator_is_ready(client)
            # when
            first, second = await heartbeat(client, 0, "t"), await heartbeat(client, 0, "t", member="m2")
            # then
            assert (first.error_code, first.heartbeat_interval_ms) == (ErrorCode.NONE, 6000)
            assert second.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            client.close()

    asyncio.run(scenario())


def test_a_group_of_another_coordinator_is_not_ours(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path / "data", SMALL) as broker:
            client = await connect(broker)
            # when: nobody has asked for a coordinator, so the topic of all groups is not there
            answer = await heartbeat(client, 0, "t")
            # then
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            client.close()

    asyncio.run(scenario())
