"""A machine with a clock of its own, which is killed, stops for a while, and starts again.

Everything that runs on a host goes through it: timers, tasks, arriving messages, ends of disk writes. What
belongs to an earlier life of the host is dropped; what arrives while it stands still comes when it goes on.
`step` is called between any two things that a process does one after the other: a kill may strike there.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from simulation.world.scheduler import MILLISECOND, Callback, Event, Promise, Scheduler, Task


class Killed(BaseException):
    """The process ended in the middle of what it did."""


class Host:
    """One machine, or one client's."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive = True
        self.life = 0
        """Counts the starts: what was begun in an earlier one means nothing any more."""
        self.rate = 1.0
        """How fast its clock goes."""
        self.skew_ms = 0
        self.on_killed: Callable[[], None] = lambda: None
        self._still_until = 0
        self._steps_left: int | None = None
        self._steps_after_promise: int | None = None
        self._tasks: list[Task] = []

    # -- time -----------------------------------------------------------------------------------------

    @property
    def steady_ms(self) -> int:
        """Its steady clock."""
        return int(self.scheduler.now * self.rate) // MILLISECOND + self.skew_ms

    def after_ms(self, delay_ms: float, callback: Callback, *arguments: Any) -> Event:
        """Call so much later by its own clock, if it still lives then."""
        delay = int(delay_ms * MILLISECOND / self.rate) + 1
        return self.scheduler.at(self.scheduler.now + delay, self._deliver, self.life, callback, arguments)

    def at_steady_ms(self, time_ms: int, callback: Callback, *arguments: Any) -> Event:
        """Call when its steady clock shows `time_ms`."""
        return self.after_ms(max(time_ms - self.steady_ms, 0), callback, *arguments)

    def sleep(self, delay_ms: float) -> Promise:
        """Await it to let time pass."""
        promise = Promise(self.scheduler)
        self.after_ms(delay_ms, promise.resolve)
        return promise

    def promise(self) -> Promise:
        """A new one."""
        return Promise(self.scheduler)

    # -- running --------------------------------------------------------------------------------------

    def deliver_at(self, time: int, callback: Callback, *arguments: Any) -> Event:
        """Call at the world's time, on this life of the host."""
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
        """Between two things: a kill that was armed may strike here."""
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
        """Be killed so many steps after the next thing that must be durable before it is said."""
        self._steps_after_promise = steps

    def promised(self) -> None:
        """Something was made durable, and is about to be said."""
        if self._steps_after_promise is not None:
            self._steps_left, self._steps_after_promise = self._steps_after_promise, None

    def stand_still(self, duration_ms: float) -> None:
        """Nothing happens here for a while: a stopped process, a long collection, a machine that sleeps."""
        self._still_until = max(self._still_until, self.scheduler.now + int(duration_ms * MILLISECOND))

    @property
    def in_danger(self) -> bool:
        """Whether it stands still, or a kill is armed."""
        armed = self._steps_left is not None or self._steps_after_promise is not None
        return armed or self._still_until > self.scheduler.now

    def be_safe(self) -> None:
        """It goes on, and is not killed at a step."""
        self._steps_left = self._steps_after_promise = None
        self._still_until = 0

    def stop(self) -> None:
        """The process is gone, with all that it had in memory."""
        self.alive = False
        self.life += 1
        self.be_safe()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    def start(self) -> None:
        """A new process."""
        self.life += 1
        self.alive = True
