"""Ways to break the quorum's state machine, each by one function, all of which a checker must catch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from ottla.core.quorum import leader, leading, voter_changes, voting
from ottla.core.quorum.api import ElectionState
from ottla.core.quorum.election import Tally
from ottla.core.quorum.node import Node


def _counts_twice(self: Tally, voter_id: int, granted: bool) -> None:
    votes = self.granted if granted else self.rejected
    votes.add(voter_id)
    if granted:
        votes.add(voter_id + 1_000_000)


def _saves_nothing(self: Node, election: ElectionState) -> None:
    self.election = election


def _without_epoch_start(end_offsets: list[int], epoch_start_offset: int) -> int:
    return sorted(end_offsets, reverse=True)[len(end_offsets) // 2]


def _of_one(end_offsets: list[int], epoch_start_offset: int) -> int | None:
    return max(end_offsets) if max(end_offsets) > epoch_start_offset else None


def _only_voters_stand(self: Node) -> bool:
    return self.is_voter and self.settings.may_vote and not self.stopping and self.installing is None


def _patch(target: Any, name: str, new: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(target, name, new)


MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a vote counts twice": _patch(Tally, "record", _counts_twice),
    "a vote is given twice": _patch(voting, "may_vote_for", lambda *_: True),
    "a vote is not saved": _patch(Node, "save_election", _saves_nothing),
    "a vote is given to any log": _patch(voting, "log_is_up_to_date", lambda *_: True),
    "old epochs count": _patch(Node, "is_over", lambda *_: False),
    "records of old epochs are committed": _patch(leader, "committed_offset", _without_epoch_start),
    "records of one replica are committed": _patch(leader, "committed_offset", _of_one),
    "a divergent tail is kept": _patch(leading, "check_position", lambda *_: None),
    "what is not synced counts": lambda: mock.patch.object(
        Node,
        "synced_offset",
        property(lambda self: self.log.end_offset, lambda self, value: None),
        create=True,
    ),
    "a voter that is being removed never stands": _patch(Node, "may_stand", property(_only_voters_stand)),
    "voters change before the last change is committed": _patch(
        voter_changes.VoterChanges, "_obstacle", lambda *_: None
    ),
}
ABOUT_LEADERS = frozenset({"records of old epochs are committed"})
"""These need schedules in which leaders write alone and fall."""
