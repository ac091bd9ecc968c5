"""The service's parts: started in order, stopped in the other, and watched while they run."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.rest.service import RestService
from ottla.rest.settings import TABLE
from ottla.web.errors import ServiceError
from ottla.web.server import HttpAddress

ADDRESS = HttpAddress("127.0.0.1", 8082)


@dataclass(slots=True)
class Part:
    """A part that writes down what is done to it."""

    name: str
    told: list[str]
    refuses_start: bool = False
    refuses_stop: bool = False
    broken: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        self.told.append(f"start {self.name}")
        if self.refuses_start:
            raise ServiceError("no")

    def end_requests(self) -> None:
        self.told.append(f"end requests of {self.name}")

    async def stop(self) -> None:
        self.told.append(f"stop {self.name}")
        if self.refuses_stop:
            raise OSError("no")

    async def failed(self) -> str:
        await self.broken.wait()
        return f"{self.name} is broken"


def service(*parts: Part) -> RestService:
    made = RestService(Settings(TABLE, {}))
    assert made.proxy is not None
    made.proxy.parts = parts
    return made


def test_parts_are_stopped_in_the_other_order_though_one_refuses(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def run() -> None:
        running = service(Part("a", told), Part("b", told, refuses_stop=True), Part("c", told))
        await running.start(ADDRESS)
        await running.stop()

    asyncio.run(run())

    assert told == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert "Part did not stop cleanly" in caplog.text


def test_what_was_started_before_a_part_that_cannot_is_stopped() -> None:
    told: list[str] = []

    async def run() -> None:
        running = service(Part("a", told), Part("b", told, refuses_start=True), Part("c", told))
        with pytest.raises(ServiceError):
            await running.start(ADDRESS)
        await running.stop()

    asyncio.run(run())

    assert told == ["start a", "start b", "stop b", "stop a"]


def test_the_service_fails_with_the_part_that_does() -> None:
    async def run() -> str:
        parts = Part("a", []), Part("b", [])
        running = service(*parts)
        await running.start(ADDRESS)
        failing = asyncio.create_task(running.failed())
        await asyncio.sleep(0)
        assert not failing.done()
        parts[1].broken.set()
        found = await failing
        await running.stop()
        return found

    assert asyncio.run(run()) == "ottla rest: b is broken"


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"listeners": "http://0.0.0.0:8082", "client.security.protocol": "SSL"}, False),
        ({"producer.linger.ms": "5", "consumer.max.poll.interval.ms": "60000"}, False),
        ({"bootstrap.server": "x:1"}, True),
    ],
)
def test_a_setting_that_nobody_knows_is_warned_of(
    given: dict[str, Any], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        RestService(Settings(TABLE, from_mapping(given)))

    assert ("unknown settings are ignored" in caplog.text) == warned
