"""Threads for blocking calls to the cluster that do not hold up the process's end.

A librdkafka consumer of a cluster that is away never ends leaving its group, and the interpreter waits at its
end for the threads of concurrent.futures' own executor, for as long as they take. These threads are daemons:
a process that has stopped in order ends although one of them is still in such a call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(Executor):
    """At most `count` threads, each made when a call finds none idle."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._made = 0
        self._idle = 0
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run the call on a thread; see Executor. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._changed:
            if self._ended:
                raise RuntimeError(f"the threads {self._name} have ended")
            self._calls.append((future, lambda: fn(*args, **kwargs)))
            if self._idle < len(self._calls) and self._made < self._count:
                self._made += 1
                name = f"{self._name}-{self._made}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further calls, and cancel those that have not begun. Threads are never waited for."""
        with self._changed:
            self._ended = True
            left, self._calls = self._calls, deque()
            self._changed.notify_all()
        for future, _ in left:
            future.cancel()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._calls and not self._ended:
                    self._changed.wait()
                self._idle -= 1
                if not self._calls:
                    return
                future, call = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as problem:
                future.set_exception(problem)
            else:
                future.set_result(result)
            del future, call
