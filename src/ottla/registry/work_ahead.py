"""The figures of long work on schemas that is done ahead of a turn."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.web.errors import ApiError


class AheadOutcome(enum.StrEnum):
    """How a piece of such work ended."""

    DONE = "done"
    CLIENT_GONE = "client_gone"
    GIVEN_UP = "given_up"
    """The time of its request was over."""


class WorkAhead:
    """Counts such work."""

    def __init__(self) -> None:
        self.waiting = 0
        self.outcomes: Counter[AheadOutcome] = Counter()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """One piece of work, whose request waits for it; it raises ApiError when its client has left."""
        outcome = AheadOutcome.GIVEN_UP
        self.waiting += 1
        try:
            yield
            outcome = AheadOutcome.DONE
        except ApiError:
            outcome = AheadOutcome.CLIENT_GONE
            raise
        finally:
            self.waiting -= 1
            self.outcomes[outcome] += 1
