"""The journal of executions: one owner at a time, beats, leases that run out, owners that wake up late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from ottla.balance.core.plan import Change
from ottla.balance.execution.journal import BalanceBusy, Execution, Journal, LostExecution
from ottla.client.access import ClusterAccess
from support.servers.ottla_broker import OttlaBroker

LEASE_S = 2.0
CHANGES = [Change("orders", number, (1, 2), (2, 3), 1, 100) for number in range(5_000)]


def execution(owner: str, name: str) -> Execution:
    return Execution(name, "balance", owner, 0, 1_000, (1, 2, 3))


@asynccontextmanager
async def journals(bootstrap: str, count: int) -> AsyncIterator[Sequence[Journal]]:
    opened = [Journal(ClusterAccess(bootstrap), LEASE_S) for _ in range(count)]
    try:
        for one in opened:
            await one.open()
        yield opened
    finally:
        for one in opened:
            await one.close()


def test_one_owner_at_a_time(broker: OttlaBroker) -> None:
    async def run() -> None:
        async with journals(broker.bootstrap, 2) as (mine, theirs):
            # given
            begun = await mine.begin(execution("me", "first"), CHANGES)
            assert mine.changes_of(begun) == tuple(CHANGES)
            # while it beats nobody else begins, also where they have tried
            with pytest.raises(BalanceBusy, match="me carries out balance first"):
                await theirs.begin(execution("they", "second"), CHANGES)
            watching = asyncio.create_task(theirs.has_owner(begun))
            begun = await mine.beat(begun)
            assert await watching
            # without a beat the lease runs out, and another carries it on
            assert not await theirs.has_owner(begun)
            adopted = await theirs.adopt(begun, "they")
            assert theirs.changes_of(adopted) == tuple(CHANGES)
            # who wakes up late changes nothing any more
            with pytest.raises(LostExecution):
                await mine.beat(begun)
            with pytest.raises(LostExecution):
                await mine.finish(begun, "done", ())
            with pytest.raises(BalanceBusy):
                await mine.adopt(begun, "me")
            # a request to stop reaches the owner, and the end is the same for all
            await mine.ask_to_stop(adopted, at_once=True)
            await theirs.beat(adopted)  # written behind the request, and read before it returns
            assert theirs.stop_of(adopted) is True
            await theirs.finish(adopted, "stopped", (3,))
            assert theirs.unfinished is None

        async with journals(broker.bootstrap, 1) as (later,):
            assert later.execution is not None
            assert (later.execution.outcome, later.execution.left_over) == ("stopped", (3,))
            assert later.changes_of(adopted) == ()
            await later.cleaned(later.execution, ())
            assert later.execution.left_over == ()
            begun = await later.begin(execution("me", "third"), [])
            await later.finish(begun, "done", ())

    asyncio.run(run())
