"""A group as Connect's is: its leader spreads tasks over the members, by a protocol that all of them know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import orjson

from ottla.client.access import ClusterAccess
from ottla.replicated.group_member import Generation, GroupMember, GroupTimes
from support.servers.ottla_broker import OttlaBroker

TASKS = 7
TIMES = GroupTimes(session_timeout_ms=1_500, heartbeat_interval_ms=50, rebalance_timeout_ms=3_000)


class Worker:
    """Satisfies GroupProtocol: a member that knows some of the protocols, and has read up to some offset."""

    protocol_type = "toy-connect"

    def __init__(self, broker: OttlaBroker, group_id: str, url: str, protocols: Sequence[str]) -> None:
        self.url = url
        self.offset = 0
        self.generation: Generation | None = None
        self.tasks: list[int] = []
        self.leader_url = ""
        self.highest_offset = 0
        self._protocols = protocols
        self._member = GroupMember(ClusterAccess(broker.bootstrap), group_id, self, TIMES)
        self._running: asyncio.Task[None] | None = None

    def subscriptions(self) -> Sequence[tuple[str, bytes]]:
        return [(name, orjson.dumps([name, self.url, self.offset])) for name in self._protocols]

    async def assign(self, generation: Generation, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        known = {member_id: orjson.loads(metadata) for member_id, metadata in sorted(members.items())}
        assert {protocol for protocol, _, _ in known.values()} == {generation.protocol}
        highest = max(offset for _, _, offset in known.values())
        assert generation.leader_id in known
        return {
            member_id: orjson.dumps([self.url, highest, list(range(number, TASKS, len(known)))])
            for number, member_id in enumerate(known)
        }

    def assigned(self, generation: Generation, assignment: bytes) -> None:
        self.generation = generation
        self.leader_url, self.highest_offset, self.tasks = orjson.loads(assignment)

    def lost(self) -> None:
        self.tasks = []

    def join(self) -> None:
        self._running = asyncio.create_task(self._member.run())

    def publish(self, offset: int) -> None:
        self.offset = offset
        self._member.rejoin()

    async def die(self) -> None:
        """Without a word to the group."""
        await self._stop()
        await self._member._client.close()

    async def leave(self) -> None:
        await self._stop()
        await self._member.close()

    async def _stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.wait([self._running])


def test_tasks_are_spread_anew_as_workers_come_learn_leave_and_die(
    broker: OttlaBroker, unique_name: str
) -> None:
    async def story() -> None:
        newest = ("sessioned", "compatible", "eager")
        first = Worker(broker, unique_name, "http://first", newest)
        second = Worker(broker, unique_name, "http://second", newest)
        older = Worker(broker, unique_name, "http://older", newest[1:])
        members = [first]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(lambda: members[0].leave())
            first.join()
            await until(lambda: spread(members, "sessioned"))
            # when others come, the last with less knowledge
            members.append(second)
            second.join()
            await until(lambda: spread(members, "sessioned"))
            members.append(older)
            older.join()
            await until(lambda: spread(members, "compatible"))
            # when a member has read more
            second.publish(9)
            await until(lambda: spread(members, "compatible") and first.highest_offset == 9)
            # when one leaves, and another is gone without a word
            members.remove(older)
            await older.leave()
            await until(lambda: spread(members, "sessioned"))
            members.remove(first)
            await first.die()
            await until(lambda: spread(members, "sessioned"))

    run(story())


def spread(members: Sequence[Worker], protocol: str) -> bool:
    """Whether every task has one worker, in one generation with one leader."""
    generations = {one.generation.number for one in members if one.generation is not None}
    protocols = {one.generation.protocol for one in members if one.generation is not None}
    tasks = sorted(task for one in members for task in one.tasks)
    leaders = {one.leader_url for one in members}
    return (
        tasks == list(range(TASKS))
        and len(generations) == len(leaders) == 1
        and protocols == {protocol}
        and leaders <= {one.url for one in members}
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(within())
