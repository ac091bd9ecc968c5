"""The order of the reads: a cluster that moves on between any two of them makes no lag that never was."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.admin.partition_offsets import EARLIEST, FoundOffset
from ottla.client.cluster_requests import TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.first_records import FirstRecord, Found, Place
from ottla.client.groups.model import GroupOffset, GroupType, ListedGroup
from ottla.lag import reading, sampler
from ottla.lag.core.standing import Position
from ottla.lag.core.tracker import Rules
from ottla.lag.core.verdicts import Status
from ottla.lag.reading import read_lags
from ottla.lag.sampler import Filter, Sampler, SamplerOptions
from ottla.protocol.errors import ErrorCode

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
GROUP = ListedGroup("packers", GroupType.CLASSIC, "consumer", "Empty", 1)


class World:
    """A cluster whose log grows with each question, and whose group has read and committed all of it."""

    def __init__(self) -> None:
        self.end = 100
        self.asked: list[str] = []
        self.offsets: dict[TopicPartition, int | None] = {ONE: None}
        self.error: ClusterError | None = None

    def ask(self, what: str) -> None:
        self.asked.append(what)
        self.end += 5

    async def list_offsets(self, client: Any, wanted: Mapping[TopicPartition, int], **_: Any) -> Any:
        self.ask("starts" if EARLIEST in wanted.values() else "ends")
        return {one: FoundOffset(0 if at == EARLIEST else self.end, -1, 0) for one, at in wanted.items()}

    async def group_offsets(self, client: Any, types: Mapping[str, GroupType]) -> Any:
        self.ask("offsets")
        if self.error is not None:
            return dict.fromkeys(types, self.error)
        found = {one: GroupOffset(self.end if at is None else at) for one, at in self.offsets.items()}
        return dict.fromkeys(types, found)

    async def describe_groups(self, client: Any, types: Any) -> Any:
        return {}

    async def list_groups(self, client: Any) -> list[ListedGroup]:
        return [GROUP]

    async def first_records(
        self, client: Any, places: Iterable[Place], *_: Any, **__: Any
    ) -> dict[Place, Found]:
        return {place: FirstRecord(place[1], 1_000) for place in places}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    for module in (reading, sampler):
        for name in ("list_offsets", "group_offsets", "describe_groups", "list_groups", "first_records"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(made, name))
    return made


def read(world: World) -> Any:
    (group,) = asyncio.run(read_lags(world, [GROUP])).groups  # type: ignore[arg-type]
    return group


def test_a_group_that_keeps_up_has_no_lag_while_its_log_grows(world: World) -> None:
    (one,) = read(world).partitions
    assert (one.standing.position, one.standing.lag, one.lag_ms) == (Position.CAUGHT_UP, 0, 0)
    assert world.asked[:3] == ["offsets", "ends", "offsets"]


def test_an_offset_that_stays_beyond_the_end_is_told(world: World) -> None:
    world.offsets = {ONE: 10_000}
    (one,) = read(world).partitions
    assert one.standing.position is Position.BEYOND_END


def test_a_partition_that_comes_up_with_the_second_reading_has_an_end_too(world: World) -> None:
    async def run() -> Any:
        asked = world.group_offsets

        async def with_another(client: Any, types: Any) -> Any:
            found = await asked(client, types)
            world.offsets = {ONE: None, TWO: 50}
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "group_offsets", with_another)
            return (await read_lags(world, [GROUP])).groups  # type: ignore[arg-type]

    (group,) = asyncio.run(run())
    assert [(one.partition, one.standing.position) for one in group.partitions] == [
        (ONE, Position.CAUGHT_UP),
        (TWO, Position.BEHIND),
    ]


def test_offsets_that_can_t_be_read_are_a_problem_and_not_a_lag_of_0(world: World) -> None:
    world.error = refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, "group packers")
    group = read(world)
    assert group.partitions == () and group.problem is world.error


class FakeClient:
    """The metadata of one topic with a partition, and no topic of commits."""

    async def topics(self, names: Any = None) -> Any:
        from ottla.protocol.messages.metadata_response import (
            MetadataResponsePartition,
            MetadataResponseTopic,
        )

        if names is not None:
            return [MetadataResponseTopic(name=names[0], error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        return [
            MetadataResponseTopic(name="orders", partitions=[MetadataResponsePartition(partition_index=0)])
        ]

    async def close(self) -> None:
        pass


def watched(world: World, rounds: int, **options: Any) -> Sampler:
    async def run() -> Sampler:
        made = Sampler(
            ClusterAccess("127.0.0.1:1"), Rules(), SamplerOptions(offset_refresh_ms=100, **options)
        )
        await made._client.close()
        made._client = FakeClient()  # type: ignore[assignment]
        done = asyncio.Event()
        running = asyncio.create_task(made.run(lambda _: done.set() if made.rounds == rounds else None))
        async with asyncio.timeout(20):
            await done.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return made

    return asyncio.run(run())


@pytest.mark.parametrize("by_topic", [False, True])
def test_a_round_reads_ends_before_offsets(world: World, by_topic: bool) -> None:
    """Also where the topic of commits can't be read, and offsets are asked for in its place."""
    made = watched(world, 2, by_topic=by_topic)
    assert made.snapshot is not None and not made.snapshot.by_topic
    verdict = made.snapshot.verdicts["packers"]
    (one,) = verdict.partitions
    assert (verdict.status, one.standing.lag, one.lag_ms) == (Status.OK, 0, 0)
    asked = [what for what in world.asked if what in ("ends", "offsets")]
    assert asked[:4] == ["ends", "offsets", "ends", "offsets"]


def test_groups_and_topics_that_are_not_watched_are_not_read(world: World) -> None:
    none = re.compile("^$")
    assert watched(world, 1, groups=Filter(denied=re.compile("pack"))).snapshot.verdicts == {}  # type: ignore[union-attr]
    assert watched(world, 1, topics=Filter(allowed=none)).snapshot.verdicts == {}  # type: ignore[union-attr]


def test_a_filter_takes_what_is_allowed_and_not_denied() -> None:
    made = Filter(re.compile("^orders"), re.compile("tmp$"))
    assert [made(name) for name in ("orders-1", "orders-tmp", "payments")] == [True, False, False]
    assert Filter()("anything")
