"""A member of a group, before a coordinator that answers as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    KafkaConnectionError,
    MemberIdRequired,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from ottla.client.access import ClusterAccess
from ottla.replicated import group_member
from ottla.replicated.errors import StateError
from ottla.replicated.group_member import Generation, GroupMember, GroupTimes

QUICK = GroupTimes(session_timeout_ms=200, heartbeat_interval_ms=1)
JOIN, SYNC, HEARTBEAT, LEAVE = JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest


class Coordinator:
    """In place of aiokafka's client. `moods`: errors by request, the next one first; then all is well.

    seen: the kinds of requests and the member ids in them.
    """

    def __init__(self) -> None:
        self.moods: dict[type[Any], list[type[Exception]]] = {}
        self.seen: list[tuple[type[Any], str]] = []
        self.assignments: list[Sequence[tuple[str, bytes]]] = []
        self.away = False
        self.bootstraps = 0
        self.generation = 0
        self.leader = "member"

    async def bootstrap(self) -> None:
        self.bootstraps += 1
        if self.away:
            raise KafkaConnectionError("Unable to bootstrap")

    async def close(self) -> None:
        pass

    async def coordinator_lookup(self, _kind: object, _group: str) -> int:
        if self.away:
            raise KafkaConnectionError("away")
        return 1

    async def send(self, _node: int, request: Any, **_options: object) -> Any:
        if self.away:
            raise KafkaConnectionError("away")
        self.seen.append((type(request), request._member_id))
        moods = self.moods.get(type(request), [])
        error: Any = moods.pop(0) if moods else SimpleNamespace(errno=0)
        answer = SimpleNamespace(error_code=error.errno, member_id="member")
        match request:
            case JoinGroupRequest():
                self.generation += 1
                answer.generation_id, answer.group_protocol = self.generation, "second"
                answer.leader_id = self.leader
                answer.members = [("member", b"one"), ("other", b"two")]
            case SyncGroupRequest():
                self.assignments.append(request._group_assignment)
                answer.member_assignment = dict(request._group_assignment).get("member", b"theirs")
        return answer


class Protocol:
    """Satisfies GroupProtocol, and keeps its assignments; None: it was lost."""

    protocol_type = "toy"

    def __init__(self) -> None:
        self.told: list[tuple[Generation, bytes] | None] = []
        self.not_understood = 0

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        return [("first", b"1"), ("second", b"2")]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        await asyncio.sleep(0)
        return {member: b"for " + metadata for member, metadata in members.items()}

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        if self.not_understood:
            self.not_understood -= 1
            raise ValueError("of another version")
        self.told.append((generation, assignment))

    def lost(self) -> None:
        self.told.append(None)


class Story:
    """A member that runs."""

    def __init__(self, times: GroupTimes = QUICK) -> None:
        self.coordinator, self.protocol = Coordinator(), Protocol()
        self.member = GroupMember(ClusterAccess("127.0.0.1:1"), "group", self.protocol, times)
        self.member._client = self.coordinator  # type: ignore[assignment]  # it has no other way in
        self.running: asyncio.Task[None] | None = None

    def run(self) -> None:
        self.running = asyncio.create_task(self.member.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        assert self.running is not None
        while not condition() and not self.running.done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert condition()

    async def end(self) -> None:
        assert self.running is not None
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.member.close()

    def heartbeats(self) -> int:
        return sum(kind is HEARTBEAT for kind, _ in self.coordinator.seen)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_member, "RETRY_SECONDS", 0.001)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(within())


def test_the_leader_assigns_and_every_member_is_told() -> None:
    async def story() -> None:
        one = Story()
        one.run()
        await one.until(lambda: one.heartbeats() > 2)
        await one.end()
        assert one.protocol.told == [(Generation(1, "member", "member", "second"), b"for one")]
        assert one.coordinator.assignments == [[("member", b"for one"), ("other", b"for two")]]
        kinds = [kind for kind, _ in one.coordinator.seen]
        assert kinds[:2] == [JOIN, SYNC] and kinds[-1] is LEAVE

    run(story())


def test_another_leader_assigns() -> None:
    async def story() -> None:
        one = Story()
        one.coordinator.leader = "other"
        one.run()
        await one.until(lambda: bool(one.protocol.told))
        await one.end()
        assert one.protocol.told == [(Generation(1, "member", "other", "second"), b"theirs")]
        assert one.coordinator.assignments == [[]]

    run(story())


def test_a_new_member_joins_again_with_the_id_that_it_is_given() -> None:
    async def story() -> None:
        one = Story()
        one.coordinator.moods[JOIN] = [MemberIdRequired]
        one.run()
        await one.until(lambda: bool(one.protocol.told))
        await one.end()
        assert one.coordinator.seen[:2] == [(JOIN, ""), (JOIN, "member")]

    run(story())


@pytest.mark.parametrize(
    ("kind", "error", "rejoined_as"),
    [
        (HEARTBEAT, RebalanceInProgressError, "member"),
        (HEARTBEAT, IllegalGenerationError, "member"),
        (HEARTBEAT, UnknownMemberIdError, ""),
        (SYNC, RebalanceInProgressError, "member"),
        (JOIN, UnknownMemberIdError, ""),
    ],
)
def test_a_member_of_an_older_generation_joins_again(
    kind: type[Any], error: type[Exception], rejoined_as: str
) -> None:
    async def story() -> None:
        one = Story()
        one.coordinator.moods[kind] = [error]
        one.run()
        await one.until(lambda: bool(one.protocol.told) and one.coordinator.generation > 1)
        await one.until(lambda: one.protocol.told[-1] is not None and one.heartbeats() > 2)
        await one.end()
        joins = [member_id for kind, member_id in one.coordinator.seen if kind is JOIN]
        assert joins == ["", rejoined_as]
        assert None not in one.protocol.told

    run(story())


def test_a_service_that_asks_for_it_joins_again_at_once() -> None:
    async def story() -> None:
        one = Story(GroupTimes(session_timeout_ms=60_000, heartbeat_interval_ms=60_000))
        one.run()
        await one.until(lambda: len(one.protocol.told) == 1)
        one.member.rejoin()
        await one.until(lambda: len(one.protocol.told) == 2)
        await one.end()
        assert one.coordinator.generation == 2

    run(story())


def test_a_member_that_hears_nothing_for_a_session_is_told_once_and_comes_back() -> None:
    async def story() -> None:
        one = Story()
        one.run()
        await one.until(lambda: one.heartbeats() > 1)
        one.coordinator.away = True
        await one.until(lambda: None in one.protocol.told)
        for _ in range(20):
            await asyncio.sleep(0.001)
        one.coordinator.away = False
        await one.until(lambda: one.protocol.told[-1] is not None)
        await one.end()
        assert [told is None for told in one.protocol.told] == [False, True, False]

    run(story())


def test_a_cluster_that_is_away_when_a_member_starts_is_waited_for() -> None:
    async def story() -> None:
        one = Story()
        one.coordinator.away = True
        one.run()
        await one.until(lambda: one.coordinator.bootstraps > 2)
        one.coordinator.away = False
        await one.until(lambda: one.heartbeats() > 1)
        bootstraps = one.coordinator.bootstraps
        one.member.rejoin()
        await one.until(lambda: one.member.joins == 2)
        await one.end()
        assert one.coordinator.bootstraps == bootstraps

    run(story())


def test_a_member_that_is_heard_again_within_a_session_keeps_its_assignment() -> None:
    async def story() -> None:
        one = Story(GroupTimes(session_timeout_ms=60_000, heartbeat_interval_ms=1))
        one.run()
        await one.until(lambda: one.heartbeats() > 1)
        one.coordinator.away = True
        for _ in range(20):
            await asyncio.sleep(0.001)
        one.coordinator.away = False
        await one.until(lambda: len(one.protocol.told) == 2)
        await one.end()
        assert None not in one.protocol.told

    run(story())


def test_an_assignment_that_is_not_understood_is_asked_for_again() -> None:
    async def story() -> None:
        one = Story()
        one.protocol.not_understood = 2
        one.run()
        await one.until(lambda: bool(one.protocol.told))
        await one.end()
        assert one.coordinator.generation == 3

    run(story())


def test_a_group_that_can_never_be_joined_ends_the_member() -> None:
    async def story() -> None:
        one = Story()
        one.coordinator.moods[JOIN] = [GroupAuthorizationFailedError]
        one.run()
        assert one.running is not None
        with pytest.raises(StateError, match="group group: "):
            await one.running
        await one.member.close()

    run(story())


def test_a_join_may_take_as_long_as_a_rebalance() -> None:
    async def story() -> None:
        times = GroupTimes(10_000, 3_000, rebalance_timeout_ms=300_000)
        member = GroupMember(ClusterAccess("127.0.0.1:1"), "group", Protocol(), times)
        assert member._client._request_timeout_ms > 300_000
        await member.close()

    run(story())
