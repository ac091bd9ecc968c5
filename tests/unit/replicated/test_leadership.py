"""What an instance knows of the primary."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.replicated.leadership import Leadership


def test_that_there_is_no_primary_is_known_too() -> None:
    async def story() -> None:
        leadership = Leadership("group")
        waiting = asyncio.create_task(leadership.wait_until_known())
        await asyncio.sleep(0)
        assert not waiting.done()
        leadership.learn(None, is_here=False)
        await waiting
        assert (leadership.url, leadership.is_here) == (None, False)

    asyncio.run(story())


def test_each_change_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    leadership = Leadership("group")
    for url, is_here in [(None, False), (None, False), ("http://a", True), ("http://a", True)]:
        leadership.learn(url, is_here)
    assert caplog.messages == [
        "the primary of group group is no instance",
        "the primary of group group is http://a",
    ]
    assert leadership.is_here
