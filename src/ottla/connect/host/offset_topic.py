"""Reads an offsets topic once, to its end: committed records alone, none of them missed.

The end is that of all records at the beginning, those of open transactions too: offsets that were committed
behind another connector's open transaction are readable only when that one has ended, and it does end.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError
from ottla.replicated.loss import TopicLost
from ottla.replicated.topic_log import Fetched, TopicLog, Unreadable, by_leader

WAIT_MS: Final = 200
PAUSE_SECONDS: Final = 0.1

T = TypeVar("T")

Apply = Callable[[bytes, bytes | None], None]
"""Takes the key and the value of a record."""


async def replay(access: ClusterAccess, topic: str, apply: Apply, timeout_seconds: float) -> bool:
    """Apply every committed record of a topic. Returns False for a topic that is not there.

    Raises ClusterError, also where the end is not reached in time.
    """
    log = TopicLog(access, topic)
    try:
        async with asyncio.timeout(timeout_seconds):
            found = await _patiently(log.find)
            if found is None:
                return False
            log.adopt(found)
            await _replay_found(log, apply)
            return True
    except TimeoutError:
        raise ClusterError(
            f"cannot read topic {topic} at {access.bootstrap} to its end within {timeout_seconds:g} s"
        ) from None
    except (TopicLost, Unreadable) as problem:
        raise ClusterError(f"cannot read topic {topic} at {access.bootstrap}: {problem}") from None
    finally:
        await log.close()


async def _replay_found(log: TopicLog, apply: Apply) -> None:
    ends = await _patiently(functools.partial(log.end_offsets, committed=False))
    begins: dict[int, int] = {}
    for leader, partitions in by_leader(await _patiently(log.leaders)).items():
        begins |= await _patiently(functools.partial(log.first_offsets, leader, partitions))
    places = {partition: begins[partition] for partition, end in ends.items() if begins[partition] < end}
    while places:
        progress = False
        for leader, partitions in by_leader(await _patiently(log.leaders)).items():
            wanted = {one: places[one] for one in partitions if one in places}
            if wanted:
                fetched = await _patiently(functools.partial(log.fetch, leader, wanted, WAIT_MS))
                progress |= _take(fetched, places, ends, apply)
        if not progress:
            await asyncio.sleep(PAUSE_SECONDS)


def _take(fetched: list[Fetched], places: dict[int, int], ends: dict[int, int], apply: Apply) -> bool:
    progress = False
    for each in fetched:
        if isinstance(each.problem, TopicLost):
            raise each.problem
        if each.problem is not None:
            if each.problem.denied:
                raise each.problem
            continue
        for record in each.records:
            if record.offset < ends[each.partition]:
                apply(record.key, record.value)
        progress |= each.next_offset > places[each.partition]
        places[each.partition] = each.next_offset
        if each.next_offset >= ends[each.partition]:
            del places[each.partition]
    return progress


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, once the cluster gives one; a broker may be away for a moment. Raises Unreadable."""
    while True:
        try:
            return await ask()
        except Unreadable as problem:
            if problem.denied:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
