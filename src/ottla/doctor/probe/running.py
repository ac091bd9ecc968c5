"""A probe as a whole: its topic, a path to each broker, brokers that come, the figures at any time.

The topic is made if it is not there, and removed at the end by the run that made it, unless it is to be kept.
A run that is killed leaves it; the next one finds it, uses it and leaves it. Its records are deleted after an
hour. Runs may go side by side: each knows its own records by their key.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ottla.client.access import Address, ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.leaders import PartitionLeaders
from ottla.doctor.probe.figures import PartitionFigures, ProbeFigures, figures_of
from ottla.doctor.probe.paths import Leaders, Path
from ottla.doctor.probe.topic import (
    PROBE_TOPIC,
    cover_brokers,
    lead_as_planned,
    make_topic,
    remove_topic,
)
from ottla.doctor.snapshot import ClockReading
from ottla.protocol.errors import ErrorCode

READY_SECONDS: Final = 15.0
"""For a new topic's partitions to be readable."""
LOOK_SECONDS: Final = 3.0
"""Between two looks for brokers that have come."""
REQUEST_SECONDS: Final = 5.0
REMOVE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """How to probe.

    seconds: of writing. every_seconds: between reports; None for none. drain_seconds: for the last records to
    be read. keep_topic: also one that this run has made.
    """

    seconds: float = 5.0
    every_seconds: float | None = None
    interval_seconds: float = 0.1
    timeout_seconds: float = 5.0
    drain_seconds: float = 5.0
    topic: str = PROBE_TOPIC
    keep_topic: bool = False


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The figures of each broker, of all together, and the brokers' clocks beside this machine's."""

    brokers: tuple[ProbeFigures, ...]
    whole: ProbeFigures
    clocks: dict[str, ClockReading]


class Probe:
    """One run of a probe."""

    def __init__(self, access: ClusterAccess, options: ProbeOptions) -> None:
        self._access = access.with_client_id("ottla-doctor")
        self._options = options
        self._run = uuid.uuid4().hex.encode()
        self._leaders: Leaders | None = None
        self._paths: dict[int, Path] = {}
        self._clocks: dict[str, ClockReading] = {}
        self._writers: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    async def run(self, report: Callable[[ProbeReport], None]) -> ProbeReport:
        """Probe for the time of the options; the figures of the whole. Raises ClusterError.

        report: called with the figures so far, every `every_seconds`. Removes the topic when cancelled, too.
        """
        client = ClusterRequests(self._access, REQUEST_SECONDS)
        made = False
        try:
            await client.cluster()
            client, first = await self._with_all_brokers(client), client
            await first.close()
            made = await make_topic(client, self._options.topic)
            await self._begin(client)
            await self._probe(client, report)
            return self.report()
        finally:
            await self._end(client, made and not self._options.keep_topic)

    def report(self) -> ProbeReport:
        """The figures as they are now."""
        now = asyncio.get_running_loop().time()
        figures = [path.figures for _, path in sorted(self._paths.items())]
        brokers = sorted({one.broker for one in figures})
        return ProbeReport(
            tuple(
                figures_of(broker, (one for one in figures if one.broker == broker), now)
                for broker in brokers
            ),
            figures_of(None, figures, now),
            dict(self._clocks),
        )

    async def _with_all_brokers(self, client: ClusterRequests) -> ClusterRequests:
        """A client that goes on when the broker dies that the user named."""
        brokers = (await client.cluster()).brokers.values()
        addresses = dict.fromkeys(
            [*self._access.addresses(), *(Address(one.host, one.port) for one in brokers)]
        )
        self._access = dataclasses.replace(self._access, bootstrap=",".join(map(str, addresses)))
        return ClusterRequests(self._access, REQUEST_SECONDS)

    async def _begin(self, client: ClusterRequests) -> None:
        """Wait until every partition of a live broker is read, which is before anything is written."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        while not self._paths:
            try:
                led = await cover_brokers(client, self._options.topic)
            except ClusterError as problem:
                if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() > deadline:
                    raise
                led = {}
            self._follow(client, led)
            if not led and loop.time() > deadline:
                raise ClusterError(f"topic {self._options.topic} has no partition with a replica")
            await asyncio.sleep(0 if led else PAUSE_SECONDS)
        with contextlib.suppress(ClusterError):
            await lead_as_planned(client, self._options.topic, sorted(self._paths))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - loop.time())):
                await asyncio.gather(*(path.reading.wait() for path in self._paths.values()))
        if not any(path.reading.is_set() for path in self._paths.values()):
            raise ClusterError(f"no partition of topic {self._options.topic} could be read")
        for path in self._paths.values():
            path.begin_blind()

    def _follow(self, client: ClusterRequests, led: dict[int, int]) -> None:
        """Start the paths of partitions that are new."""
        if self._leaders is None:
            self._leaders = Leaders(PartitionLeaders(client), self._options.topic)
        timeout = self._options.timeout_seconds
        for partition, broker in led.items():
            if partition in self._paths:
                continue
            path = Path(
                self._access,
                self._leaders,
                TopicPartition(self._options.topic, partition),
                PartitionFigures(partition, broker),
                self._run,
                self._keep_clock,
            )
            self._paths[partition] = path
            self._readers.append(asyncio.create_task(path.read(timeout)))
            self._writers.append(asyncio.create_task(path.write(self._options.interval_seconds, timeout)))

    def _keep_clock(self, reading: ClockReading) -> None:
        known = self._clocks.get(reading.node)
        if known is None or reading.error_ms < known.error_ms:
            self._clocks[reading.node] = reading

    async def _probe(self, client: ClusterRequests, report: Callable[[ProbeReport], None]) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.seconds
        every = self._options.every_seconds
        told, looked = loop.time(), loop.time()
        while loop.time() < end:
            await asyncio.sleep(min(PAUSE_SECONDS, max(0.0, end - loop.time())))
            self._check()
            if every is not None and loop.time() - told >= every:
                told = loop.time()
                report(self.report())
            if loop.time() - looked >= LOOK_SECONDS:
                looked = loop.time()
                await self._quietly(self._look(client))
        await _stopped(self._writers)
        drained = loop.time() + self._options.drain_seconds
        while loop.time() < drained and any(path.figures.unread for path in self._paths.values()):
            await asyncio.sleep(PAUSE_SECONDS)
            self._check()

    async def _look(self, client: ClusterRequests) -> None:
        """Follow brokers that have come, and lead as planned again after brokers were away."""
        async with asyncio.timeout(REQUEST_SECONDS):
            for path in self._paths.values():
                path.begin_blind()
            self._follow(client, await cover_brokers(client, self._options.topic))
            await lead_as_planned(client, self._options.topic, sorted(self._paths))

    @staticmethod
    async def _quietly(looking: Awaitable[None]) -> None:
        """A cluster that is in trouble is looked at again later; its trouble is in the figures."""
        with contextlib.suppress(ClusterError, TimeoutError):
            await looking

    def _check(self) -> None:
        """Raise the error of a path's task that has died: it runs until it is cancelled."""
        for task in (*self._writers, *self._readers):
            if task.done() and not task.cancelled():
                task.result()

    async def _end(self, client: ClusterRequests, remove: bool) -> None:
        await _stopped([*self._writers, *self._readers])
        for path in self._paths.values():
            path.close()
        try:
            if remove:
                async with asyncio.timeout(REMOVE_SECONDS):
                    await remove_topic(client, self._options.topic)
        except TimeoutError:
            raise ClusterError(f"topic {self._options.topic} could not be removed in time") from None
        finally:
            await client.close()


async def _stopped(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
