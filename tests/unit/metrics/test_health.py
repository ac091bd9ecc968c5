"""Checks: their verdicts, those that fail themselves, those that hang on a disk."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.metrics import health as module
from ottla.metrics.health import Check, Health, Verdict


def test_a_check_that_raises_is_a_failed_one() -> None:
    def broken() -> Verdict:
        raise KeyError("x")

    report = asyncio.run(Health(alive=[Check("broken", broken)]).is_alive())
    assert not report.is_well
    assert "KeyError" in report.results[0].verdict.reason


def test_a_process_that_is_not_alive_is_not_ready() -> None:
    health = Health([Check("alive", lambda: Verdict(False, "the disk is gone"))], [])
    assert not asyncio.run(health.is_ready()).is_well


def test_a_check_that_hangs_is_failed_in_time_and_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.05)
    go_on = threading.Event()
    begun = 0

    def hanging() -> Verdict:
        nonlocal begun
        begun += 1
        go_on.wait(60)
        return Verdict(True, "the disk answers")

    health = Health([Check("log-directory", hanging, blocks=True)])

    async def scenario() -> None:
        for _ in range(3):
            report = await health.is_alive()
            assert not report.is_well
        assert begun == 1
        go_on.set()
        async with asyncio.timeout(10):
            while not (await health.is_alive()).is_well:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(scenario())
