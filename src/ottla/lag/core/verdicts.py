"""Judges groups by Burrow's rules: whether they make progress, have stopped, stand still, or fall behind.

The rules look at a window of commits, not at one lag: a large lag that shrinks is no fault, a small one that
no commit follows is one. In this order (the first that fits decides):

1. The present lag is allowed: OK, also after worse times.
2. STOP: since the last commit has passed more time than from the first of the window to the last. A group
   that had caught up with one of the ends of the last minutes is given time: it may commit rarely.
3. REWIND: a commit is below the one before, and no later commit has come back to it.
4. At some commit of the window the lag was allowed: OK.
5. STALL: all commits have the same offset.
6. WARN: the lag has not shrunk from any commit to the next.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ottla.lag.core.windows import Commit


class Status(enum.IntEnum):
    """The verdict on a partition or a group, by Burrow's words and numbers: the worse, the higher.

    ERR is a group's alone: one of its partitions is STOP, STALL or REWIND. NOTFOUND is no partition's.
    """

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    STOP = 4
    STALL = 5
    REWIND = 6


def partition_status(
    commits: Sequence[Commit], ends: Sequence[int], lag: int, now_ms: int, allowed_lag: int = 0
) -> Status:
    """The verdict on a group in a partition. commits: at least one. ends: of the last minutes."""
    if lag <= allowed_lag:
        return Status.OK
    if has_stopped(commits, now_ms) and not had_caught_up(commits, ends):
        return Status.STOP
    at = first_rewind(commits)
    if at is not None and not has_recovered(commits, at):
        return Status.REWIND
    if any(one.lag is not None and one.lag <= allowed_lag for one in commits):
        return Status.OK
    if stands_still(commits):
        return Status.STALL
    return Status.WARN if never_shrinks(commits) else Status.OK


def group_status(partitions: Iterable[Status]) -> Status:
    """The verdict on a group by those on its partitions: the worst of them, where all above WARN are ERR."""
    return min(max(partitions, default=Status.OK), Status.ERR)


def has_stopped(commits: Sequence[Commit], now_ms: int) -> bool:
    """Whether more time has passed since the last commit than between the first and the last."""
    first_ms, last_ms = commits[0].timestamp_ms, commits[-1].timestamp_ms
    return now_ms - last_ms > last_ms - first_ms


def had_caught_up(commits: Sequence[Commit], ends: Iterable[int]) -> bool:
    """Whether the last commit had reached one of the ends."""
    last = commits[-1].offset
    return any(end <= last for end in ends)


def first_rewind(commits: Sequence[Commit]) -> int | None:
    """The place of the first commit that is below the one before it."""
    for at in range(1, len(commits)):
        if commits[at].offset < commits[at - 1].offset:
            return at
    return None


def has_recovered(commits: Sequence[Commit], at: int) -> bool:
    """Whether a commit from the rewind at `at` on has come back to the offset before it."""
    before = commits[at - 1].offset
    return any(one.offset >= before for one in commits[at:])


def stands_still(commits: Sequence[Commit]) -> bool:
    """Whether all commits have the same offset; true for one alone."""
    return all(one.offset == commits[0].offset for one in commits)


def never_shrinks(commits: Iterable[Commit]) -> bool:
    """Whether no commit's lag is below that of the one before; unknown lags do not count."""
    lags = [one.lag for one in commits if one.lag is not None]
    return all(later >= earlier for earlier, later in pairwise(lags))
