"""A machine with its own clock, which is killed, pauses, and starts again.

All work of a host goes through it: timers, tasks, arriving messages, ends of disk writes. Events of an
earlier life of the host are dropped; events during a pause are handled when it ends. `step` is called between
any two actions of a process: a kill may strike there.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from simulation.world.scheduler import MILLISECOND, Callback, Event, Promise, Scheduler, Task


class Killed(BaseException):
    """The process was killed in the middle of an operation."""


class Host:
    """One machine, or one client's."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive = True
        self.life = 0
        """Counts the starts: events of an earlier life do not count any more."""
        self.rate = 1.0
        """The speed of its clock."""
        self.skew_ms = 0
        self.on_killed: Callable[[], None] = lambda: None
        self._still_until = 0
        self._steps_left: int | None = None
        self._steps_after_promise: int | None = None
        self._tasks: list[Task] = []

    # -- time -----------------------------------------------------------------------------------------

    @property
    def steady_ms(self) -> int:
        """The time of its steady clock."""
        return int(self.scheduler.now * self.rate) // MILLISECOND + self.skew_ms

    def after_ms(self, delay_ms: float, callback: Callback, *arguments: Any) -> Event:
        """Call after this time by its own clock, if it still lives then."""
        delay = int(delay_ms * MILLISECOND / self.rate) + 1
        return self.scheduler.at(self.scheduler.now + delay, self._deliver, self.life, callback, arguments)

    def at_steady_ms(self, time_ms: int, callback: Callback, *arguments: Any) -> Event:
        """Call when its steady clock shows `time_ms`."""
        return self.after_ms(max(time_ms - self.steady_ms, 0), callback, *arguments)

    def sleep(self, delay_ms: float) -> Promise:
        """Await this to let time pass."""
        promise = Promise(self.scheduler)
        self.after_ms(delay_ms, promise.resolve)
        return promise

    def promise(self) -> Promise:
        """A new promise, bound to this host."""
        return Promise(self.scheduler)

    # -- running --------------------------------------------------------------------------------------

    def deliver_at(self, time: int, callback: Callback, *arguments: Any) -> Event:
        """Call at the world's time, in this life of the host."""
        return self.scheduler.at(time, self._deliver, self.life, callback, arguments)

    def _deliver(self, life: int, callback: Callback, arguments: tuple[Any, ...]) -> None:
        if life != self.life or not self.alive:
            return
        if self._still_until > self.scheduler.now:
            self.scheduler.at(self._still_until, self._deliver, life, callback, arguments)
            return
        try:
            callback(*arguments)
        except Killed:
            self.on_killed()

    def guard(self, callback: Callback, argument: Any) -> bool:
        """Run a step of a task, unless the host is dead; a kill in it ends the host."""
        if not self.alive:
            return False
        if self._still_until > self.scheduler.now:
            self.scheduler.at(self._still_until, self._guard_later, self.life, callback, argument)
            return False
        try:
            callback(argument)
        except Killed:
            self.on_killed()
        return True

    def _guard_later(self, life: int, callback: Callback, argument: Any) -> None:
        if life == self.life:
            self.guard(callback, argument)

    def spawn(self, name: str, coroutine: Coroutine[Promise, Any, Any]) -> Task:
        """Run a coroutine until it ends, or the host does."""
        if len(self._tasks) > 64:
            self._tasks = [task for task in self._tasks if not task.ended]
        task = Task(self.scheduler, name, coroutine, self.guard)
        self._tasks.append(task)
        return task

    def step(self) -> None:
        """A point between two actions: an armed kill may strike here."""
        if self._steps_left is not None:
            self._steps_left -= 1
            if self._steps_left <= 0:
                self._steps_left = None
                raise Killed

    # -- faults ---------------------------------------------------------------------------------------

    def arm_kill(self, steps: int) -> None:
        """Be killed at the `steps`-th step from now."""
        self._steps_left = steps

    def arm_kill_after_promise(self, steps: int) -> None:
        """Be killed this many steps after the next write that must be durable before it is announced."""
        self._steps_after_promise = steps

    def promised(self) -> None:
        """A write has become durable, and is about to be announced."""
        if self._steps_after_promise is not None:
            self._steps_left, self._steps_after_promise = self._steps_after_promise, None

    def stand_still(self, duration_ms: float) -> None:
        """Pause: a stopped process, a long garbage collection, a machine that sleeps."""
        self._still_until = max(self._still_until, self.scheduler.now + int(duration_ms * MILLISECOND))

    @property
    def in_danger(self) -> bool:
        """Whether the host pauses, or a kill is armed."""
        armed = self._steps_left is not None or self._steps_after_promise is not None
        return armed or self._still_until > self.scheduler.now

    def be_safe(self) -> None:
        """End a pause, and disarm a kill."""
        self._steps_left = self._steps_after_promise = None
        self._still_until = 0

    def stop(self) -> None:
        """The process has ended, with all its memory."""
        self.alive = False
        self.life += 1
        self.be_safe()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    def start(self) -> None:
        """Start a new process."""
        self.life += 1
        self.alive = True
