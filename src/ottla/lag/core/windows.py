"""The windows that verdicts look at: the last commits of a group in a partition, the last ends of a log.

The rules are those of Burrow's in-memory storage. A window keeps commits in their order: the offset of their
records in `__consumer_offsets`, or the number of the sample that found them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

INTERVALS: Final = 10
"""Commits of a window, and ends."""


class Commit(NamedTuple):
    """A committed offset. observed_ms: when it was read here, which may be later than it was committed.

    lag: records between the offset and the log's end when it was observed; None for a commit that was
    observed after a later one, when the end had moved on.
    """

    offset: int
    order: int
    timestamp_ms: int
    observed_ms: int
    lag: int | None


_ORDER: Final = attrgetter("order")


class CommitWindow:
    """The last commits of one group in one partition, at most `size`, in their order."""

    __slots__ = ("_commits", "size")

    def __init__(self, size: int = INTERVALS) -> None:
        self.size = size
        self._commits: list[Commit] = []

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits, oldest first."""
        return self._commits

    @property
    def complete(self) -> float:
        """The part of the window that is filled, 0 to 1."""
        return len(self._commits) / self.size

    def forget_below(self, order: int) -> None:
        """Take the commits of lower orders out."""
        if self._commits and self._commits[0].order < order:
            self._commits = [one for one in self._commits if one.order >= order]

    def renumber(self, first: int) -> None:
        """Give the commits other orders, from `first` on."""
        self._commits = [one._replace(order=first + at) for at, one in enumerate(self._commits)]

    def add(
        self,
        offset: int,
        order: int,
        timestamp_ms: int,
        observed_ms: int,
        end: int | None,
        min_distance_ms: int = 0,
    ) -> bool:
        """Take a commit in; whether it is the newest.

        end: of the log, as it is known; None if it is not, or was not when the offset was committed. A commit
        that is there already is passed over, and so is one older than all of a full window. A commit less
        than `min_distance_ms` after the one before takes its place and its time, so that a group which
        commits often does not fill the window with one moment.
        """
        commits = self._commits
        at = bisect_left(commits, order, key=_ORDER)
        is_newest = at == len(commits)
        if not is_newest and commits[at].order == order:
            return False
        is_full = len(commits) == self.size
        if is_full and at == 0:
            return False
        # a known end may be older than the commit: the group then has caught up with it
        lag = max(0, end - offset) if is_newest and end is not None else None
        if is_full and at == 1 and not is_newest:
            commits[0] = Commit(offset, order, timestamp_ms, observed_ms, lag)
            return False
        if at and timestamp_ms - commits[at - 1].timestamp_ms < min_distance_ms:
            commits[at - 1] = Commit(offset, order, commits[at - 1].timestamp_ms, observed_ms, lag)
            return is_newest
        commits.insert(at, Commit(offset, order, timestamp_ms, observed_ms, lag))
        if is_full:
            del commits[0]
        return is_newest


class EndWindow:
    """The last ends of one partition's log, at most `size`, oldest first."""

    __slots__ = ("ends", "size")

    def __init__(self, size: int = INTERVALS) -> None:
        self.size = size
        self.ends: list[int] = []

    @property
    def newest(self) -> int | None:
        """The end as it was last read; None before that."""
        return self.ends[-1] if self.ends else None

    def add(self, end: int) -> None:
        """Take in an end that was read now."""
        self.ends.append(end)
        if len(self.ends) > self.size:
            del self.ends[0]
