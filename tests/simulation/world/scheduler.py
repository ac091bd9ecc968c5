"""Simulated time: events in the order of their time, coroutines that wait for them, one source of chance.

All code here, and all code that runs here, may depend only on the seed: no clock, no `hash` of a string, no
iteration over a set of strings. A waiting task is resumed in the turn in which it was woken, after the one
that woke it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

MILLISECOND = 1000
"""The scheduler's times are microseconds."""

Callback = Callable[..., Any]


class Event:
    """A callback to come; `cancel` drops it."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callback, arguments: tuple[Any, ...]) -> None:
        self.callback: Callback | None = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None


class Scheduler:
    """The heap of events, and the random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.events_run = 0
        self._heap: list[tuple[int, int, Event]] = []
        self._soon: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._sequence = 0

    def at(self, time: int, callback: Callback, *arguments: Any) -> Event:
        """Call at `time`; events of one time are called in the order in which they were made."""
        event = Event(callback, arguments)
        self._sequence += 1
        heapq.heappush(self._heap, (max(time, self.now), self._sequence, event))
        return event

    def after_ms(self, delay_ms: float, callback: Callback, *arguments: Any) -> Event:
        """Call after this time, by the world's own clock."""
        return self.at(self.now + int(delay_ms * MILLISECOND), callback, *arguments)

    def soon(self, callback: Callback, *arguments: Any) -> None:
        """Call before time goes on."""
        self._soon.append((callback, arguments))

    def run(self, until: int, finished: Callable[[], bool] | None = None) -> bool:
        """Let time pass up to `until`, or until `finished` is true, which is checked after each event."""
        heap, soon = self._heap, self._soon
        while True:
            while soon:
                callback, arguments = soon.popleft()
                callback(*arguments)
            if finished is not None and finished():
                return True
            if not heap or heap[0][0] > until:
                self.now = max(self.now, until)
                return False
            self.now, _, event = heapq.heappop(heap)
            if event.callback is None:
                continue
            self.events_run += 1
            event.callback(*event.arguments)

    def chance(self, probability: float) -> bool:
        """A random choice with this probability."""
        return probability > 0 and self.random.random() < probability


class Promise:
    """A future value; awaited by tasks, or observed by a callback."""

    __slots__ = ("_observers", "_scheduler", "done", "value")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._observers: list[Callable[[Any], Any]] = []
        self.done = False
        self.value: Any = None

    def resolve(self, value: Any = None) -> None:
        """Set the value; a second one is ignored."""
        if self.done:
            return
        self.done, self.value = True, value
        for observer in self._observers:
            self._scheduler.soon(observer, value)
        self._observers.clear()

    def observe(self, observer: Callable[[Any], Any]) -> None:
        """Call with the value, in a turn of its own."""
        if self.done:
            self._scheduler.soon(observer, self.value)
        else:
            self._observers.append(observer)

    def __await__(self) -> Generator[Promise, Any, Any]:
        if not self.done:
            yield self
        return self.value


class Task:
    """A coroutine that runs between events. `guard` wraps each of its steps (see hosts)."""

    __slots__ = ("_coroutine", "_guard", "ended", "name")

    def __init__(
        self,
        scheduler: Scheduler,
        name: str,
        coroutine: Coroutine[Promise, Any, Any],
        guard: Callable[[Callback, Any], bool],
    ) -> None:
        self.name = name
        self.ended = False
        self._coroutine = coroutine
        self._guard = guard
        scheduler.soon(self._step, None)

    def _step(self, value: Any) -> None:
        if not self.ended:
            self._guard(self._advance, value)

    def _advance(self, value: Any) -> None:
        try:
            waits_for = self._coroutine.send(value)
        except StopIteration:
            self.ended = True
            return
        waits_for.observe(self._step)

    def cancel(self) -> None:
        """Stop the coroutine."""
        if not self.ended:
            self.ended = True
            if not self._coroutine.cr_running:  # otherwise its host ends in its own step
                self._coroutine.close()
