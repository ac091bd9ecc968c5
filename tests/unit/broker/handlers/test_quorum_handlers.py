"""The quorum's requests at a broker's and a controller's listeners."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.broker.broker import Broker
from ottla.broker.handlers.apis import CONTROLLER_FAMILIES
from ottla.broker.handlers.cluster.cluster import update_features
from ottla.broker.network.context import RequestContext, Session
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.schema import ZERO_UUID, Struct
from support.nodes.in_process import connect, running_broker
from support.nodes.quorums import CLUSTER_ID, QuorumNode, running_quorum, set_config
from support.protocol.messages import Maker, is_flexible

QUORUM_APIS = sorted(key for key, module in CONTROLLER_FAMILIES.items() if module == "cluster.quorum")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def describe(topic: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    asked = TopicData(topic_name=topic, partitions=[PartitionData(partition_index=partition)])
    return DescribeQuorumRequest(topics=[asked])


def test_a_broker_passes_the_question_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            for version in range(3):
                answer: Any = await client.call(ApiKey.DESCRIBE_QUORUM, version, describe())
                partition = answer.topics[0].partitions[0]
                assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
                assert partition.high_watermark == broker.controller.high_watermark
                (voter,) = partition.current_voters
                known = broker.log_directory.directory_id if version == 2 else ZERO_UUID
                assert (voter.replica_id, voter.replica_directory_id) == (1, known)
                assert [each.node_id for each in answer.nodes] == ([1] if version == 2 else [])
            answer = await client.call(ApiKey.DESCRIBE_QUORUM, 2, describe("orders", 3))
            partition = answer.topics[0].partitions[0]
            assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_the_quorums_version_is_a_feature(tmp_path: Path) -> None:
    """Voters of the configuration move into the log when kraft.version goes from 0 to 1 (KIP-853)."""

    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
            context = RequestContext(ApiKey.UPDATE_FEATURES, 2, 0, None, Session("127.0.0.1", "CONTROLLER"))

            async def upgrade(*, validate_only: bool) -> int:
                request = UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)
                return (await update_features(cast(Broker, leader), context, request)).error_code

            # Refused until all voters have told of themselves.
            while await upgrade(validate_only=True):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert leader.quorum.kraft_version == 0
            assert await upgrade(validate_only=False) == ErrorCode.NONE
            assert leader.quorum.kraft_version == 1
            update.max_version_level = 2
            assert await upgrade(validate_only=False) != ErrorCode.NONE

    run(test)


def test_another_clusters_node_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, [1], dynamic=True) as cluster:
            leader = await cluster.leader()
            answer: Any = await leader.quorum.handle(2, VoteRequest(cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"))
            assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID

    run(test)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_no_request_ends_a_node(tmp_path: Path, dynamic: bool) -> None:
    """Requests with any content, some of it near to what is right, at every version."""

    async def test() -> None:
        dice = random.Random(dynamic)
        async with running_quorum(tmp_path, dynamic=dynamic) as cluster:
            await set_config((await cluster.leader()).controller, "a", "1")
            asked = [ask(dice.choice(cluster.running), dice) for _ in range(400)]
            await asyncio.gather(*asked)
            for node in cluster.running:
                assert node.quorum.failure is None

    run(test)


async def ask(node: QuorumNode, dice: random.Random) -> None:
    """One request; its answer, if one comes soon, can be sent."""
    key = dice.choice(QUORUM_APIS)
    oldest, newest = advertised_versions(key)
    version = dice.randrange(oldest, newest + 1)
    cls = request_class(key)
    request = Maker(version, is_flexible(cls, version), dice, tame=True).struct(cls, 0)
    plausible(request, dice)
    try:
        async with asyncio.timeout(0.05):
            answer = await node.quorum.handle(version, request)
    except TimeoutError:
        return
    answer.encode(version)


def plausible(message: Struct, dice: random.Random) -> None:
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if isinstance(value, list):
            for each in (each for each in value if isinstance(each, Struct)):
                plausible(each, dice)
        elif isinstance(value, Struct):
            plausible(value, dice)
        elif field.kind in ("int32", "int64") and dice.random() < 0.9:
            setattr(message, field.name, dice.choice([-1, 0, 0, 1, 2, 3, 10]))
        elif field.name in ("topic_name", "topic", "name") and dice.random() < 0.9:
            setattr(message, field.name, "__cluster_metadata")
        elif field.name == "cluster_id" and dice.random() < 0.9:
            setattr(message, field.name, CLUSTER_ID)
