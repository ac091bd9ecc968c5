"""One decision at a time for each name: later ones wait while a decision is on its way to the log.

Theory of operation. A shard's state changes only when records are replayed after their append. A second
decision about the same group in between would be based on the old state (two members that join at once would
both make epoch 8). So a decision takes the group's turn until its append has ended, and later decisions about
the group run after that, in order of arrival. Each waits for a request (a connection has one at a time) or a
timer (one a member), which bounds the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ottla.core.coordination.outbox import Outbox
from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.errors import ErrorCode

Action = Callable[[], None]


class Turns:
    """The decisions under way and the waiting ones, by the name of the group or share partition."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[str, deque[Action]] = {}
        """Names whose decision is on its way to the log, each with the decisions that wait."""

    def is_taken(self, name: str) -> bool:
        """Whether a decision about `name` is on its way to the log."""
        return name in self._waiting

    def run(self, name: str, action: Action) -> None:
        """Run `action` now, or after the decisions about `name` that came before it are in the log."""
        waiting = self._waiting.get(name)
        if waiting is None:
            action()
        else:
            waiting.append(action)

    def append(
        self,
        name: str,
        records: Sequence[CoordinatorRecord],
        done: Action,
        failed: Callable[[ErrorCode], None],
    ) -> int:
        """Append `records`, a decision about `name`, which has the turn; returns the append's id.

        One of the continuations runs, `done` after the records were replayed, then the waiting decisions.
        """
        assert name not in self._waiting, f"two decisions about {name} at once"
        self._waiting[name] = deque()
        append_id = self._outbox.append(records, done, failed)
        # Not a continuation of the append itself: those run early when the append times out, but the turn
        # lasts until the append has really ended.
        self._outbox.at_end(append_id, lambda: self._end(name))
        return append_id

    def _end(self, name: str) -> None:
        waiting = self._waiting.pop(name)
        while waiting:
            waiting.popleft()()
            taken = self._waiting.get(name)
            if taken is not None:  # the action has decided something: the others wait on
                taken.extend(waiting)
                return
