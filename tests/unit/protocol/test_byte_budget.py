"""The bandwidth limit: over any time no more than the rate, but for the answer that is under way."""

from __future__ import annotations

import random

from ottla.protocol.byte_budget import Budget


def test_without_a_limit_nothing_waits() -> None:
    budget = Budget(0)
    budget.spend(1 << 40, 5.0)
    assert budget.wait_seconds(5.0) == 0
    assert budget.most_bytes(1 << 20) == 1 << 20


def test_what_was_fetched_is_paid_for_before_more_is() -> None:
    dice = random.Random(7)
    budget, now, fetched = Budget(100_000), 3.0, 0
    assert budget.most_bytes(1 << 20) == 25_000
    while now < 60:
        now += budget.wait_seconds(now) + dice.random() * 0.01
        size = dice.randint(1, 60_000)
        budget.spend(size, now)
        fetched += size
    assert 100_000 * 50 < fetched <= 100_000 * (now - 3.0) + 60_000


def test_a_quiet_time_is_not_saved_up() -> None:
    budget = Budget(1_000)
    budget.spend(500, 0.0)
    budget.spend(500, 100.0)
    assert budget.wait_seconds(100.0) == 0.5
