"""Strays on one broker: appends that end uncertainly, and what is pruned, remembered and told meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.internal_appends import InternalAppends
from ottla.core.coordination.partitioning import older_partition_for, partition_for
from ottla.protocol.errors import NotEnoughReplicas, RequestTimedOut
from support.clients.named_states import NamedStates, draw_name, seed_of_this_run
from support.clients.wire import WireClient
from support.nodes.in_process import running_broker
from support.servers.older_ottla import make_older

PARTITIONS = 7
SETTINGS = {"offsets.topic.num.partitions": str(PARTITIONS), "transaction.state.log.num.partitions": "5"}


def on_a_broker(data: Path, act: Callable[[WireClient], None], look: Callable[[Broker], None]) -> None:
    """Speak with a broker of this process, then look at it."""

    def speak(port: int) -> None:
        with WireClient.connect(f"127.0.0.1:{port}") as client:
            act(client)

    async def run() -> None:
        async with running_broker(data, SETTINGS) as broker:
            await asyncio.to_thread(speak, broker.port)
            look(broker)

    asyncio.run(run())


def draw_stray(rng: random.Random) -> str:
    while True:
        name = draw_name(rng)
        if partition_for(name, PARTITIONS) != older_partition_for(name, PARTITIONS):
            return name


@pytest.mark.parametrize("error", [RequestTimedOut, NotEnoughReplicas, OSError])
def test_an_append_that_fails_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    rng = random.Random(seed_of_this_run())
    states = NamedStates(rng)

    def write(client: WireClient) -> None:
        client.create_topic("t", 3)
        for _ in range(8):
            states.commit(client, draw_stray(rng))

    with monkeypatch.context() as patch:
        make_older(patch)
        on_a_broker(tmp_path, write, lambda broker: None)
    # given: each partition's first append fails; one that timed out is in the log all the same
    real, failed = InternalAppends.append_records, set[int]()

    async def failing(
        appends: InternalAppends, topic: str, index: int, *arguments: Any, **options: Any
    ) -> int:
        if index in failed:
            return await real(appends, topic, index, *arguments, **options)
        failed.add(index)
        if error is RequestTimedOut:
            await real(appends, topic, index, *arguments, **options)
        raise error()

    monkeypatch.setattr(InternalAppends, "append_records", failing)

    # then
    def no_strays(broker: Broker) -> None:
        for index in range(PARTITIONS):
            runner = broker.groups.shards.runner(index)
            assert runner is not None and runner.serving and not runner.strays

    on_a_broker(tmp_path, states.check_all, no_strays)
    assert failed
