"""By whose function a broker goes, and which partitions it need not look into again."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.coordinators.coordinator_partitions import CHECKPOINT, KAFKAS_API, CoordinatorPartitions
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.supervisor import Supervisor
from ottla.core.coordination.partitioning import older_partition_for, partition_for
from ottla.core.image.features import REGISTERED_FEATURES, SUPPORTED_FEATURES
from ottla.core.image.image import BrokerImage, MetadataDelta, MetadataImage
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.schema import Message
from support.clients.wire import wait_for

SELF, OTHER = 1, 2
NAME = "billing"
COUNT = 50


def registered(node_id: int, *, knows: bool, fenced: bool = False, epoch: int = 1) -> BrokerImage:
    features = REGISTERED_FEATURES if knows else SUPPORTED_FEATURES
    ranges = tuple((name, smallest, largest) for name, (smallest, largest) in features.items())
    return BrokerImage(node_id, epoch, uuid.UUID(int=epoch), (), ranges, fenced=fenced)


class FakeBroker:
    """What a broker's image says, and what others serve."""

    served: ClassVar[dict[int, list[ApiKey] | None]] = {}

    def __init__(self, directory: Path, *others: BrokerImage) -> None:
        self.node_id = SELF
        self.config = BrokerConfig.from_mapping({"node.id": str(SELF)})
        self.image = MetadataImage()
        self.broker_requests = self
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.reloads = 0
        for each in others:
            self.image.brokers[each.broker_id] = each
        self.partitions = CoordinatorPartitions(self, directory, self._reload)

    def _reload(self) -> None:
        self.reloads += 1

    async def ask(
        self, purpose: str, node_id: int, request: Message, *, timeout_ms: int | None = None
    ) -> Message:
        keys = self.served.get(node_id)
        if keys is None:
            raise PeerUnreachable("away")
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=key) for key in keys])


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[ApiKey] | None]:
    """Node id -> the APIs it answers with; None for one that does not answer."""
    served: dict[int, list[ApiKey] | None] = {}
    monkeypatch.setattr(FakeBroker, "served", served)
    return served


OLDER_APIS = [ApiKey.PRODUCE, ApiKey.FETCH]
KAFKAS_APIS = [*OLDER_APIS, KAFKAS_API]


@pytest.mark.parametrize(
    ("other", "apis", "agreed"),
    [
        (None, None, True),
        (registered(OTHER, knows=True), None, True),
        (registered(OTHER, knows=True, fenced=True), None, True),
        (registered(OTHER, knows=False), KAFKAS_APIS, True),
        (registered(OTHER, knows=False), OLDER_APIS, False),
        (registered(OTHER, knows=False), None, False),
        (registered(OTHER, knows=False, fenced=True), KAFKAS_APIS, False),  # it can't be asked
        (registered(SELF, knows=False), None, True),  # its own run before this one
    ],
)
def test_the_start_decides(
    tmp_path: Path, serve: dict[int, Any], other: BrokerImage | None, apis: Any, agreed: bool
) -> None:
    serve[OTHER] = apis

    async def run() -> None:
        broker = FakeBroker(tmp_path, *([] if other is None else [other]))
        await broker.partitions.settle()
        assert broker.partitions.agreed is agreed
        function = partition_for if agreed else older_partition_for
        assert broker.partitions.partition_for(NAME, COUNT) == function(NAME, COUNT)

    assert partition_for(NAME, COUNT) != older_partition_for(NAME, COUNT)
    asyncio.run(run())


def test_it_changes_over_once_and_stays(tmp_path: Path, serve: dict[int, Any]) -> None:
    async def run() -> None:
        broker = FakeBroker(tmp_path, registered(OTHER, knows=False))
        serve[OTHER] = OLDER_APIS
        await broker.partitions.settle()
        changed = MetadataDelta(changed_brokers={OTHER: None})
        broker.partitions.on_metadata(changed)
        assert (broker.partitions.agreed, broker.reloads) == (False, 0)
        # when it has been upgraded
        broker.image.brokers[OTHER] = registered(OTHER, knows=True, epoch=2)
        broker.partitions.on_metadata(changed)
        assert (broker.partitions.agreed, broker.reloads) == (True, 1)
        # then one that comes back older changes nothing here: what has moved would be lost
        broker.image.brokers[OTHER] = registered(OTHER, knows=False, epoch=3)
        broker.partitions.on_metadata(changed)
        assert (broker.partitions.agreed, broker.reloads) == (True, 1)
        await broker.supervisor.stop()
        assert broker.failures == []

    asyncio.run(run())


def test_one_that_comes_later_is_asked(tmp_path: Path, serve: dict[int, Any]) -> None:
    async def run() -> None:
        broker = FakeBroker(tmp_path, registered(OTHER, knows=False, fenced=True))
        await broker.partitions.settle()
        assert not broker.partitions.agreed
        serve[OTHER] = KAFKAS_APIS
        broker.image.brokers[OTHER] = registered(OTHER, knows=False)
        broker.partitions.on_metadata(MetadataDelta(changed_brokers={OTHER: None}))
        await asyncio.to_thread(wait_for, lambda: broker.reloads == 1)
        assert broker.partitions.agreed
        await broker.supervisor.stop()
        assert broker.failures == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("seen", "remembered"),
    [
        (registered(OTHER, knows=True), True),
        (registered(OTHER, knows=False, fenced=True), False),
        (registered(SELF, knows=True), True),
        (registered(SELF, knows=False), False),
    ],
)
def test_clean_partitions_are_remembered_until_an_older_broker_is_seen(
    tmp_path: Path, serve: dict[int, Any], seen: BrokerImage, remembered: bool
) -> None:
    async def run() -> None:
        before = FakeBroker(tmp_path)
        await before.partitions.settle()
        await asyncio.gather(*(before.partitions.note_clean("topic", index, COUNT) for index in range(9)))
        assert before.partitions.is_clean("topic", 3, COUNT)
        assert not before.partitions.is_clean("topic", 3, COUNT + 1)
        # when: another start
        after = FakeBroker(tmp_path, seen)
        await after.partitions.settle()
        # then
        assert [after.partitions.is_clean("topic", index, COUNT) for index in range(9)] == [remembered] * 9
        assert (tmp_path / CHECKPOINT).exists() is remembered

    asyncio.run(run())
