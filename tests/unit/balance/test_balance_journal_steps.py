"""A step over the journal's topic is taken again while the topic's leader moves."""

from __future__ import annotations

import asyncio

import pytest

from ottla.balance.execution.journal import Journal
from ottla.client.access import ClusterAccess
from ottla.replicated.errors import Fenced, StateError, Unstored


def outcome(*problems: Exception) -> int:
    """How often a step is taken that raises these, one after the other."""
    left = list(problems)
    taken = 0

    async def step() -> None:
        nonlocal taken
        taken += 1
        if left:
            raise left.pop(0)

    async def run() -> None:
        await Journal(ClusterAccess("127.0.0.1:1"))._retried(step, "read")

    asyncio.run(run())
    return taken


def test_what_cannot_be_read_now_is_read_again() -> None:
    moving = Unstored("topic __ottla_balance: OFFSET_NOT_AVAILABLE")
    assert outcome() == 1
    assert outcome(moving, moving) == 3


def test_another_writer_ends_it_at_once() -> None:
    with pytest.raises(StateError, match="topic __ottla_balance can't be read: "):
        outcome(Unstored("moving"), Fenced())
