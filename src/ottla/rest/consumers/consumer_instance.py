"""One consumer instance of the REST API: its requests one after the other, on threads, each to its end.

Theory of operation. A lock is held for each request, and for a read until its answer has been sent: only then
do its records count as read. After a read that fails, or whose client goes away, the consumer goes back to
the read's first records. A blocking call that has begun is waited for even when its request is cancelled, as
a librdkafka consumer serves one thread at a time.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, Message

from ottla.rest.consumers.consumer_errors import UNDECODABLE, instance_not_found, of_kafka
from ottla.rest.consumers.consumer_settings import InstanceSettings
from ottla.rest.consumers.decoding import Decoded, RecordDecoder, RecordField, Undecodable
from ottla.rest.consumers.group_consumer import CommittedOffset, GroupConsumer, Partition, ReadBounds
from ottla.rest.figures import RestFigures
from ottla.web.callers import ANONYMOUS
from ottla.web.errors import ApiError

T = TypeVar("T")

TURN_SECONDS: Final = 30.0
"""How long a request waits for those before it at the same instance."""
PAUSE_AFTER_SECONDS: Final = 1.0
"""Without a read for so long an instance pauses its partitions, so that it holds no records."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of blocking calls. `reads` has a thread for each place of `read_places`."""

    reads: Executor
    read_places: asyncio.Semaphore
    requests: Executor


class ConsumerInstance:
    """A consumer in a group, for one client at a time. Methods raise ApiError."""

    def __init__(
        self,
        group: str,
        name: str,
        settings: InstanceSettings,
        consumer: GroupConsumer,
        decoder: RecordDecoder,
        threads: Threads,
        clock: Callable[[], float],
        figures: RestFigures | None = None,
    ) -> None:
        self._figures = RestFigures() if figures is None else figures
        self.group = group
        self.name = name
        self.owner = ANONYMOUS.principal
        """The principal whose requests it serves."""
        self.topics: frozenset[str] = frozenset()
        """The topics that it was told to read by name or partition."""
        self.reads_all = False
        """Whether it was told to read by a pattern, of whatever topics there are."""
        self.settings = settings
        self._consumer = consumer
        self._decoder = decoder
        self._threads = threads
        self._clock = clock
        self._lock = asyncio.Lock()
        self._stop = threading.Event()
        self._closed = False
        self._reads_end_now = False
        self._called: asyncio.Future[Any] | None = None
        self._undecodable: Undecodable | None = None
        self.last_used = clock()
        self._last_read = self.last_used

    # --- Subscription, assignment, positions, offsets ---

    async def subscribe(self, topics: Sequence[str]) -> None:
        await self._change(self._consumer.subscribe, topics)

    async def subscribe_pattern(self, pattern: str) -> None:
        await self._change(self._consumer.subscribe_pattern, pattern)

    async def subscription(self) -> list[str]:
        async with self._turn():
            return await self._request(self._consumer.subscription)

    async def unsubscribe(self) -> None:
        await self._change(self._consumer.unsubscribe)

    async def assign(self, partitions: Sequence[Partition]) -> None:
        await self._change(self._consumer.assign, partitions)

    async def assignment(self) -> list[Partition]:
        async with self._turn():
            return await self._request(self._consumer.assignment)

    async def seek(self, offsets: Mapping[Partition, int], timestamps: Mapping[Partition, int]) -> None:
        """Move positions to offsets, or to times (ms since 1970); offsets win for the same partition."""
        async with self._turn():
            wanted = dict(await self._request(self._consumer.offsets_at, timestamps)) if timestamps else {}
            wanted.update(offsets)
            await self._request(self._consumer.seek, wanted, self._wait_seconds, self._stop)
            self._undecodable = None

    async def seek_to_ends(self, partitions: Sequence[Partition], *, beginning: bool) -> None:
        await self._change(
            functools.partial(self._consumer.seek_to_ends, beginning=beginning),
            partitions,
            self._wait_seconds,
            self._stop,
        )

    async def commit(self, offsets: Sequence[CommittedOffset]) -> None:
        async with self._turn():
            await self._request(self._consumer.commit, offsets)
        self._figures.commits += 1

    async def committed(self, partitions: Sequence[Partition]) -> list[CommittedOffset]:
        async with self._turn():
            return await self._request(self._consumer.committed, partitions)

    # --- Reading ---

    async def read(
        self, bounds: ReadBounds, gone: asyncio.Future[None], include: Collection[RecordField] = ()
    ) -> Reading:
        """Collect and decode records; `gone` is done when the client has left. `Reading.end` must follow.

        Raises ApiError 422 (42207) for a record that does not fit the format; the record stays the next one
        of its partition. Records before it are answered first, so the error comes with the read after that.
        """
        await self._take_turn()
        try:
            if self._undecodable is not None:
                problem, self._undecodable = self._undecodable, None
                raise undecodable_error(problem)
            messages = await self._collect(bounds, gone)
            try:
                decoded = await self._decoder.decode(messages, self._request, include)
                answered = decoded.answered
                if decoded.problem is not None and not answered:
                    raise undecodable_error(decoded.problem)
                if gone.done():
                    raise ApiError(400, 400, "The client went away before its answer")
                if len(answered) < len(messages):
                    done = {id(message) for message in answered}
                    await self._request(
                        self._consumer.go_back, [each for each in messages if id(each) not in done]
                    )
            except BaseException:
                await self._request(self._take_back, messages)
                raise
        except BaseException:
            self._end_turn()
            raise
        return Reading(decoded.parts, self, messages, decoded)

    async def _collect(self, bounds: ReadBounds, gone: asyncio.Future[None]) -> list[Message]:
        places = self._threads.read_places
        try:
            async with asyncio.timeout(max(bounds.timeout_seconds, 0.1)):
                await places.acquire()
        except TimeoutError:
            raise ApiError(503, 503, "All threads of this proxy are reading; try again") from None
        stop = self._stop
        gone.add_done_callback(lambda _: stop.set())
        self._figures.reads += 1
        self._figures.reads_active += 1
        try:
            return await self._call(
                self._threads.reads, self._consumer.collect, bounds, stop, undo=self._take_back
            )
        finally:
            self._figures.reads_active -= 1
            places.release()

    def _take_back(self, messages: list[Message]) -> None:
        self._consumer.release(messages)
        self._consumer.go_back(messages)

    async def finish(self, messages: Sequence[Message], decoded: Decoded, delivered: bool) -> None:
        """End the turn of a read; called by Reading alone."""
        try:
            self._consumer.release(messages)
            if delivered:
                self._undecodable = decoded.problem
                self._figures.consumed += len(decoded.answered)
                await self._request(self._consumer.settle, decoded.answered)
            else:
                await self._request(self._consumer.go_back, decoded.answered)
        finally:
            self._last_read = self._clock()
            self._end_turn()

    # --- Life ---

    @property
    def busy(self) -> bool:
        """Whether a request is under way or waits."""
        return self._lock.locked()

    @property
    def closed(self) -> bool:
        """Whether the instance has ended or is about to: requests under way should not go on for long."""
        return self._closed

    async def tend(self) -> None:
        """Serve the group, unless a request under way does."""
        idle = self._clock() - self._last_read >= PAUSE_AFTER_SECONDS
        if self.busy or self._closed or not (idle or self._consumer.joining):
            return
        async with self._lock:
            await self._call(self._threads.requests, functools.partial(self._consumer.tend, idle=idle))

    def end_reads(self) -> None:
        """Reads under way, and all later ones, end at once, with the records that there are."""
        self._reads_end_now = True
        self._stop.set()

    async def close(self) -> None:
        """Leave the group; ends a read that is under way. It may take for ever if the cluster is away.

        To be cancelled then: the thread goes on by itself, and nobody calls the consumer any more.
        """
        self._closed = True
        self._stop.set()
        async with self._lock:
            if self._called is not None:
                await asyncio.wait([self._called])
            closing = self._threads.requests.submit(self._consumer.close)
            await asyncio.shield(asyncio.wrap_future(closing))

    async def _change(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a request that makes the last read irrelevant."""
        async with self._turn():
            await self._request(function, *arguments)
            self._undecodable = None

    @property
    def _wait_seconds(self) -> float:
        return self.settings.request_timeout_ms / 1000

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        await self._take_turn()
        try:
            yield
        finally:
            self._end_turn()

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._lock.acquire()
        except TimeoutError:
            raise ApiError(503, 503, "This consumer instance is busy with other requests") from None
        if self._closed:
            self._lock.release()
            raise instance_not_found()
        # one for each turn: the watcher of an earlier request must not end this one
        self._stop = threading.Event()
        if self._reads_end_now:
            self._stop.set()

    def _end_turn(self) -> None:
        self.last_used = self._clock()
        self._lock.release()

    async def _request(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self._call(self._threads.requests, function, *arguments)

    async def _call(
        self,
        threads: Executor,
        function: Callable[..., T],
        *arguments: Any,
        undo: Callable[[T], None] | None = None,
    ) -> T:
        """Run on a thread to its end, cancelled or not; `undo` the result of a call that was cancelled."""
        running = asyncio.get_running_loop().run_in_executor(threads, function, *arguments)
        self._called = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._stop.set()
            await asyncio.wait([running])
            if undo is not None and running.exception() is None:
                await asyncio.get_running_loop().run_in_executor(threads, undo, running.result())
            raise
        except KafkaException as problem:
            raise of_kafka(problem.args[0]) from None


@dataclass(slots=True)
class Reading:
    """A read with its answer in `parts`; its instance serves no other request until `end`."""

    parts: list[bytes]
    instance: ConsumerInstance
    messages: list[Message]
    decoded: Decoded

    async def end(self, delivered: bool) -> None:
        """Say whether the client has the answer; if not, its records are read again. To be called once."""
        await self.instance.finish(self.messages, self.decoded, delivered)


def undecodable_error(problem: Undecodable) -> ApiError:
    """The error of a read that can't go past a record."""
    return ApiError(
        422,
        UNDECODABLE,
        f"Error deserializing key/value for partition {problem.topic}-{problem.partition} at offset "
        f"{problem.offset}. If needed, please seek past the record to continue consumption. {problem.reason}",
    )
