"""What requests may hold in memory, and what JSON may unfold into."""

from __future__ import annotations

import asyncio

import pytest

from ottla.rest.records import json_bounds
from ottla.rest.records.bytes_in_work import BytesInWork
from ottla.web.errors import ApiError


def test_a_request_waits_until_others_give_back() -> None:
    async def story() -> None:
        work = BytesInWork(100)
        with work.request() as first:
            await first.add(80)
            second = work.request()
            waiting = asyncio.create_task(second.add(30))
            await asyncio.sleep(0)
            assert not waiting.done()
            first.give_back(20)
            await waiting
            assert work.held_bytes == 90
            second.give_back(30)
        assert work.held_bytes == 0

    asyncio.run(story())


def test_who_waits_too_long_is_told_to_try_again_later() -> None:
    async def story() -> None:
        work = BytesInWork(100, wait_seconds=0.01)
        with work.request() as first, work.request() as second:
            await first.add(80)
            with pytest.raises(ApiError) as refused:
                await second.add(30)
            assert refused.value.status == 429
        assert work.held_bytes == 0

    asyncio.run(story())


def test_one_request_alone_may_hold_more_than_all_may() -> None:
    async def story() -> None:
        work = BytesInWork(100, wait_seconds=0.01)
        with work.request() as only:
            await only.add(500)
        assert work.held_bytes == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "too_many"), [(b"[1,2,3]", False), (b"[" * 11, True), (b'"' + b"x" * 50, False)]
)
def test_values_are_counted_by_commas_and_brackets(
    monkeypatch: pytest.MonkeyPatch, text: bytes, too_many: bool
) -> None:
    monkeypatch.setattr(json_bounds, "MAX_VALUES", 10)
    assert json_bounds.has_too_many_values(text) is too_many
