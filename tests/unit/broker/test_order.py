"""The orders in which a broker tells its parts of metadata and stops them: both are correctness."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.core.image.image import MetadataDelta
from support.nodes.in_process import create_topic, running_broker


class Recorder:
    """Notes each call of some methods of a broker's parts, and lets it through."""

    def __init__(self, broker: Broker, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._broker = broker
        self._patch = patch

    def watch(self, part: str, method: str, named: Callable[..., str] | None = None) -> None:
        watched = getattr(self._broker, part)
        real = getattr(type(watched), method)

        def note(owner: object, arguments: tuple[Any, ...]) -> None:
            if owner is watched:
                self.calls.append(named(*arguments) if named else f"{part}.{method}")

        def call(owner: object, *arguments: Any, **options: Any) -> Any:
            note(owner, arguments)
            return real(owner, *arguments, **options)

        async def call_later(owner: object, *arguments: Any, **options: Any) -> Any:
            result = await real(owner, *arguments, **options)
            note(owner, arguments)
            return result

        is_awaited = inspect.iscoroutinefunction(real)
        self._patch.setattr(type(watched), method, call_later if is_awaited else call)


def test_parts_hear_of_metadata_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            recorder = Recorder(broker, monkeypatch)
            for part in ("lifecycle", "transactions", "roles", "groups", "coordinator_partitions"):
                recorder.watch(part, "on_metadata")
            # when: a change of metadata comes from the log
            await create_topic(broker, "t", 1)
            # then: where names live first, and groups before the partitions
            order = ["coordinator_partitions", "groups", "roles", "transactions", "lifecycle"]
            assert recorder.calls
            assert recorder.calls == [f"{part}.on_metadata" for part in order] * (len(recorder.calls) // 5)

    asyncio.run(scenario())


def test_parts_are_stopped_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        config = BrokerConfig.from_mapping(
            {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        )
        broker = await Broker.start(config, lambda: None)
        recorder = Recorder(broker, monkeypatch)
        for part in ("log_directory", "peers", "quorum", "controller", "replication"):
            recorder.watch(part, "close")
        recorder.watch("server", "stop", lambda names=None: "server.stop" if names is None else "hang up")
        for part in ("controller_supervisor", "supervisor", "share_coordinator", "transactions", "groups"):
            recorder.watch(part, "stop")
        recorder.watch("lifecycle", "shut_down")

        async def others() -> None:
            recorder.calls.append("others")

        # when
        await broker.stop(before_quorum=others)
        # then
        assert recorder.calls == [
            "lifecycle.shut_down",  # its partitions go to others while it still serves
            "hang up",
            "groups.stop",
            "transactions.stop",
            "share_coordinator.stop",
            "supervisor.stop",  # no task works on the logs any more
            "replication.close",
            "others",  # they leave with the help of the quorum, too
            "controller.close",
            "quorum.close",
            "server.stop",
            "controller_supervisor.stop",
            "peers.close",
            "log_directory.close",  # the mark of a clean stop, last of all
        ]

    asyncio.run(scenario())


def test_a_broker_that_closes_its_logs_follows_no_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            recorder = Recorder(broker, monkeypatch)
            recorder.calls = calls
            recorder.watch("roles", "on_metadata")
            real = broker.replication.close

            async def close() -> None:
                calls.clear()  # of the stop's own changes
                broker._follow(MetadataDelta())
                await real()
                calls.append("closed")

            monkeypatch.setattr(broker.replication, "close", close)

    asyncio.run(scenario())
    assert calls == ["closed"]
