"""One decision at a time for each group: what comes while a decision is on its way to the log waits.

Theory of operation. A shard's state changes only when records are replayed after their append. A second
decision about the same group in between would be made from the old state (two members that join at once
would both make epoch 8). So a decision takes the group's turn until its append has ended, and whatever
else wants to decide about the group is run after that, in the order in which it came. What waits is a
request (a connection has one at a time) or a timer (one a member): the queue is bounded by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ottla.core.coordination.outbox import Outbox
from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.errors import ErrorCode

Action = Callable[[], None]


class Turns:
    """Who decides about what now; groups are told apart by name."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[str, deque[Action]] = {}
        """Names whose decision is on its way to the log, each with what waits for it."""

    def is_taken(self, name: str) -> bool:
        """Whether a decision about `name` is on its way to the log."""
        return name in self._waiting

    def run(self, name: str, action: Action) -> None:
        """Run `action` now, or when the decisions about `name` that came before it are in the log."""
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
        """Append `records`, a decision about `name`, whose turn it must be; returns the append's id.

        One of the continuations runs, `done` after the records were replayed, then what waited.
        """
        assert name not in self._waiting, f"two decisions about {name} at once"
        self._waiting[name] = deque()
        append_id = self._outbox.append(records, done, failed)
        # Not a continuation of the append itself: those are told early when the append is slow, but the
        # turn lasts until the append has really ended.
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
