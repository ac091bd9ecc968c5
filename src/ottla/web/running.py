"""Runs services in this process until SIGTERM or Ctrl-C: one alone, or several that fail independently.

When a single service dies, the process ends: its supervisor notices that, but not a port that answers errors
for ever. Of several services, one that can't start or dies is reported in a line and started again after a
growing pause; the others go on. All end together with the broker that they need.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.config.errors import UserError
from ottla.metrics.endpoint import MetricsEndpoint
from ottla.metrics.settings import Address
from ottla.web.server import HttpAddress, Service, bind, cancel, serve
from ottla.web.service_metrics import ServicesMetrics

log = logging.getLogger("ottla.web")

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Pauses between attempts to start a service. After a run as long as the last, they begin anew."""


@dataclass(frozen=True, slots=True)
class Place:
    """A service's addresses, with their real ports; bound until the service is first started."""

    name: str
    addresses: tuple[HttpAddress, ...]
    bound: tuple[socket.socket, ...]

    @classmethod
    def take(cls, name: str, wanted: Sequence[HttpAddress]) -> Place:
        """Bind the addresses, at least one. Raises ServiceError if that fails."""
        bound = bind(name, wanted)
        ports = [each.getsockname()[1] for each in bound]
        addresses = (replace(each, port=port) for each, port in zip(wanted, ports, strict=True))
        return cls(name, tuple(addresses), tuple(bound))

    @property
    def address(self) -> HttpAddress:
        """The first address, by which the service is known."""
        return self.addresses[0]

    def sockets(self) -> Sequence[socket.socket]:
        """The bound sockets; bound anew if those of before were closed. Raises ServiceError."""
        if all(each.fileno() >= 0 for each in self.bound):
            return self.bound
        return bind(self.name, self.addresses)

    def close(self) -> None:
        """Give the addresses up."""
        for each in self.bound:
            each.close()


@dataclass(frozen=True, slots=True)
class Kept:
    """A service that is started again whenever it ends, each time as a new one by `make`."""

    place: Place
    make: Callable[[], Service]


@dataclass(slots=True)
class Watched:
    """Where the services of a process are watched: their metrics, and the endpoint that exposes them."""

    metrics: ServicesMetrics
    endpoint: MetricsEndpoint
    address: Address | None = None
    """Once it is bound."""

    def bind(self) -> Address:
        """Take the port, if that is not done yet. Raises EndpointError."""
        if self.address is None:
            self.address = self.endpoint.bind()
        return self.address


async def run_alone(
    service: Service,
    wanted: Sequence[HttpAddress],
    ready: Callable[[str], None],
    watched: Watched | None = None,
) -> int:
    """Run until a signal (returns 0) or the service's death (1). Raises ServiceError if it can't start."""
    with _signals() as stopped:
        place = Place.take(service.name, wanted)
        async with AsyncExitStack() as stack:
            stack.callback(place.close)
            metrics, told = await _watch(stack, watched, ready)
            if metrics is not None:
                metrics.add(service.name)
            serving = asyncio.create_task(serve(service, place.bound, place.addresses, told, metrics))
            stack.push_async_callback(cancel, serving)
            stack.push_async_callback(cancel, stopped)
            await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                return 0
            log.error("%s", serving.result())
            return 1


async def run_together(
    services: Sequence[Kept],
    ready: Callable[[str], None],
    needed: Callable[[], Coroutine[Any, Any, str]],
    watched_by: Watched | None = None,
) -> int:
    """Run until a signal (returns 0) or until `needed` returns the reason for an end (1).

    They start in this order, each once the one before it runs or has failed, and stop in the reverse order.
    """
    with _signals() as stopped:
        async with AsyncExitStack() as stack:
            metrics, told = await _watch(stack, watched_by, ready)
            if metrics is not None:
                for kept in services:
                    metrics.add(kept.place.name)
            missing = asyncio.create_task(needed(), name="needed")
            stack.push_async_callback(cancel, missing)
            stack.push_async_callback(cancel, stopped)
            watched: list[asyncio.Task[Any]] = [stopped, missing]
            for kept in services:
                tried = asyncio.Event()
                keeping = _keep(kept, told, tried, metrics)
                watched.append(asyncio.create_task(keeping, name=kept.place.name))
                stack.push_async_callback(cancel, watched[-1])
                trying = asyncio.create_task(tried.wait())
                stack.push_async_callback(cancel, trying)
                done, _ = await asyncio.wait([*watched, trying], return_when=asyncio.FIRST_COMPLETED)
                if done != {trying}:
                    break
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped, missing}:
                task.result()  # it only ends by a bug
            if missing in done:
                log.error("%s", missing.result())
                return 1
            return 0


async def _watch(
    stack: AsyncExitStack, watched: Watched | None, ready: Callable[[str], None]
) -> tuple[ServicesMetrics | None, Callable[[str], None]]:
    """Start the endpoint, which answers before any service does; the line of the first also tells where."""
    if watched is None:
        return None, ready
    address = watched.bind()
    stack.push_async_callback(watched.endpoint.stop)
    await watched.endpoint.start()
    place = f", metrics at {address.url}/metrics"

    def told(line: str) -> None:
        nonlocal place
        ready(line + place)
        place = ""

    return watched.metrics, told


async def _keep(
    kept: Kept, ready: Callable[[str], None], tried: asyncio.Event, metrics: ServicesMetrics | None
) -> None:
    """Start a service again and again. Sets `tried` once it is ready or has failed."""
    name = kept.place.name
    told = ""
    pause = FIRST_PAUSE_SECONDS
    clock = asyncio.get_running_loop().time

    def is_ready(line: str) -> None:
        nonlocal told
        told = ""
        ready(line)
        tried.set()

    while True:
        begun = clock()
        try:
            problem = f"ottla {name} has ended: {await _served(kept, is_ready, metrics)}"
        except UserError as refusal:
            problem = f"ottla {name} can't start: {refusal}"
        except Exception as fault:
            log.exception("ottla %s ends by a fault of its own", name)
            problem = f"ottla {name} has ended: {fault!r}"
        tried.set()
        if clock() - begun >= LONGEST_PAUSE_SECONDS:
            pause = FIRST_PAUSE_SECONDS
        if problem != told:
            log.error("%s; everything else runs on, and it is started again until it runs", problem)
        told = problem
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _served(kept: Kept, ready: Callable[[str], None], metrics: ServicesMetrics | None) -> str:
    return await serve(kept.make(), kept.place.sockets(), kept.place.addresses, ready, metrics)


def _unseen(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception in one line; aiokafka leaves some behind when it is fenced."""
    log.warning("%s: %r", context["message"], context.get("exception"))
    log.debug("unseen", exc_info=context.get("exception"))


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Task[bool]]:
    """A task that ends at SIGTERM or SIGINT, for the length of the block.

    After one of them the process is about to end: those that follow, also behind the block, change nothing.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_unseen)
    stop = asyncio.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        # signal.signal and not the loop's handlers: Windows' loops have none
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    try:
        yield asyncio.create_task(stop.wait(), name="stop")
    finally:
        for number, handler in before.items():
            # ignored, not handled by a function of nothing: the interpreter's end takes functions away
            signal.signal(number, signal.SIG_IGN if stop.is_set() else handler)
