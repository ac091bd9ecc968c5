"""A service of some routes, alone in this process, and one connection to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from starlette.routing import BaseRoute

from ottla.web.application import json_application
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.running import Watched, run_alone
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed
from support.clients.confluent import TIMEOUT_S

Story = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RoutesService:
    """Answers by its routes, and ends when it is told to."""

    name = "echo"

    def __init__(self, routes: Sequence[BaseRoute], front: FrontOptions) -> None:
        self.front = front
        self.app = json_application(routes)
        self.address: asyncio.Future[HttpAddress] = asyncio.get_running_loop().create_future()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self, address: HttpAddress) -> None:
        self.address.set_result(address)

    def observed(self, figures: RequestFigures) -> Observed:
        return Observed()

    def end_requests(self) -> None:
        pass

    async def failed(self) -> str:
        return await self.end

    async def stop(self) -> None:
        pass


async def with_connection(service: RoutesService, story: Story, watched: Watched | None = None) -> None:
    """Play a story over one connection to the service, which ends behind it."""
    anywhere = HttpAddress("127.0.0.1", 0)
    running = asyncio.create_task(run_alone(service, [anywhere], lambda line: None, watched))
    address = await service.address
    while True:
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(TIMEOUT_S):
        await story(reader, writer)
    writer.close()
    service.end.set_result("told to")
    assert await running == 1
