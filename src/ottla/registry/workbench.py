"""Long work on schemas, parsing and comparing, that decisions need: a little of it in turns, the rest ahead.

Theory of operation. A query or a decision is made while the image stands still, and all other writes wait:
that is its turn. Work on schemas depends on their texts alone. So a turn has an allowance of steps, some
tenth of a second; work that would exceed it is put off: the turn ends undecided, the work is done in a thread
for which its own request alone waits, its outcome is kept, and the turn is taken again. It finds the outcome
there, or, where other versions came meanwhile, puts off other work. No decision is ever made from an image
that has moved on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from ottla.schemas.effort import Abandoned, Effort, TooMuchWork
from ottla.schemas.format import InvalidSchema

T = TypeVar("T")

TURN_STEPS: Final = 50_000
KEPT_OUTCOMES: Final = 10_000
KEPT_WEIGHT: Final = 64 << 20
_OUTCOME_WEIGHT: Final = 1_000


class PutOff(Exception):  # no error: the turn is taken again
    """This work comes first: `work` does it, for as long as the event is not set. Raises Abandoned."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        super().__init__("work is put off")
        self.work = work


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of some work."""

    value: Any
    invalid: InvalidSchema | None
    weight: int

    def told(self) -> Any:
        """Raises InvalidSchema where the work did."""
        if self.invalid is not None:
            raise self.invalid
        return self.value


class Workbench:
    """Does work within a turn as far as its allowance goes, and keeps the outcomes.

    Without `turn_steps` all work is done where it is asked for.
    """

    def __init__(self, turn_steps: int | None = None) -> None:
        self._turn_steps = turn_steps
        self._left = turn_steps or 0
        self._kept: OrderedDict[Hashable, Outcome] = OrderedDict()
        self._weight = 0
        self._keeping = threading.Lock()
        self.hits = 0
        self.misses = 0
        """Times that an outcome was asked for and was kept, or was not."""

    @property
    def kept_count(self) -> int:
        """The number of outcomes that are kept."""
        return len(self._kept)

    @property
    def kept_weight(self) -> int:
        """Their weight, in characters."""
        return self._weight

    def begin_turn(self) -> None:
        """The allowance is whole again."""
        self._left = self._turn_steps or 0

    def kept(self, key: Hashable) -> Outcome | None:
        """The outcome of this work, if it is kept."""
        with self._keeping:
            found = self._kept.get(key)
            if found is not None:
                self.hits += 1
                self._kept.move_to_end(key)
            else:
                self.misses += 1
            return found

    def done(
        self,
        key: Hashable,
        work: Callable[[Effort], T],
        at_least: int = 0,
        weight: Callable[[T], int] = lambda _: 0,
    ) -> T:
        """The value of `work`. Raises InvalidSchema as the work does, and PutOff.

        at_least: steps that are taken from the allowance before the work counts its own.
        weight: the characters that are kept with the value.
        """
        kept = self.kept(key)
        if kept is not None:
            return cast(T, kept.told())
        if self._turn_steps is None:
            return work(Effort())
        if at_least <= self._left:
            self._left -= at_least
            effort = Effort(self._left)
            try:
                outcome = _outcome(work, effort, weight)
            except TooMuchWork:
                self._left = 0
            else:
                self._left -= effort.spent
                self._keep(key, outcome)
                return cast(T, outcome.told())
        raise PutOff(lambda abandoned: self._ahead(key, work, weight, abandoned))

    def _ahead(
        self,
        key: Hashable,
        work: Callable[[Effort], T],
        weight: Callable[[T], int],
        abandoned: threading.Event,
    ) -> None:
        if abandoned.is_set():
            raise Abandoned
        self._keep(key, _outcome(work, Effort(abandoned=abandoned), weight))

    def _keep(self, key: Hashable, outcome: Outcome) -> None:
        with self._keeping:
            before = self._kept.pop(key, None)
            self._weight += outcome.weight - (before.weight if before else 0)
            self._kept[key] = outcome
            while len(self._kept) > 1 and (len(self._kept) > KEPT_OUTCOMES or self._weight > KEPT_WEIGHT):
                _, oldest = self._kept.popitem(last=False)
                self._weight -= oldest.weight


def _outcome(work: Callable[[Effort], T], effort: Effort, weight: Callable[[T], int]) -> Outcome:
    try:
        value = work(effort)
    except InvalidSchema as problem:
        return Outcome(None, problem, _OUTCOME_WEIGHT + len(str(problem)))
    return Outcome(value, None, _OUTCOME_WEIGHT + weight(value))
