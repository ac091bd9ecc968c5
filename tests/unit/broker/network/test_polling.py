"""Looking before sleeping: while it pays, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.broker.network.polling import (
    CONTENDED_PAUSE_SECONDS,
    CONTENDED_SECONDS,
    FORGOTTEN_AFTER_SECONDS,
    LONGEST_PAUSE_SECONDS,
    LOOK_SECONDS,
    MISSED_PAUSE_SECONDS,
    POLL_VARIABLE,
    Poller,
    look_seconds,
)

TURN_SECONDS = 5e-6


class Machine:
    """A clock, an event loop that keeps what is to be called next, and a core that others may want."""

    def __init__(self, seconds: float = LOOK_SECONDS) -> None:
        self.now = 100.0
        self.taken_by_others_seconds = 0.0
        self._next: list[Callable[[], Any]] = []
        loop = cast(asyncio.AbstractEventLoop, self)
        self.poller = Poller(loop, seconds, clock=lambda: self.now, yield_core=self._yield_core)

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self._next.append(callback)

    def _yield_core(self) -> None:
        self.now += self.taken_by_others_seconds

    @property
    def looks(self) -> bool:
        return bool(self._next)

    def turn(self) -> None:
        self.now += TURN_SECONDS
        due, self._next = self._next, []
        for callback in due:
            callback()

    def look_until_asleep(self) -> float:
        """Seconds until nothing is to be called any more."""
        began = self.now
        while self.looks:
            assert self.now - began < 1.0
            self.turn()
        return self.now - began

    def request_after(self, seconds: float) -> bool:
        """A request comes so much later; whether the broker looks on after it."""
        self.now += seconds
        self.poller.heard()
        return self.looks


def test_after_a_request_it_looks_for_the_next_one_for_a_while() -> None:
    machine = Machine()
    assert machine.request_after(0)
    assert machine.look_until_asleep() == pytest.approx(LOOK_SECONDS, abs=2 * TURN_SECONDS)


def test_each_request_that_comes_meanwhile_makes_it_look_on() -> None:
    machine = Machine()
    for _ in range(1000):
        assert machine.request_after(LOOK_SECONDS / 2)
        machine.turn()
        assert machine.looks


def test_it_is_asked_for_one_turn_at_a_time() -> None:
    machine = Machine()
    machine.poller.heard()
    machine.turn()
    machine.poller.heard()
    assert len(machine._next) == 1


def test_it_does_not_look_while_several_clients_come_at_once() -> None:
    machine = Machine()
    machine.poller.heard()
    machine.poller.heard()
    machine.turn()
    assert not machine.looks
    assert not machine.request_after(CONTENDED_PAUSE_SECONDS / 2)
    assert machine.request_after(CONTENDED_PAUSE_SECONDS)


def test_looking_in_vain_makes_it_pause_longer_and_longer() -> None:
    machine = Machine()
    machine.request_after(0)
    pause = MISSED_PAUSE_SECONDS
    while pause < LONGEST_PAUSE_SECONDS:
        machine.look_until_asleep()
        assert not machine.request_after(pause * 0.9)
        assert machine.request_after(pause * 0.2)
        pause *= 2
    machine.look_until_asleep()
    assert machine.request_after(LONGEST_PAUSE_SECONDS * 1.1)


def test_a_request_found_by_looking_makes_the_pauses_short_again() -> None:
    machine = Machine()
    for _ in range(5):
        machine.request_after(LONGEST_PAUSE_SECONDS)
        machine.look_until_asleep()
    assert machine.request_after(LONGEST_PAUSE_SECONDS)
    machine.turn()
    assert machine.request_after(LOOK_SECONDS / 2)
    machine.look_until_asleep()
    assert machine.request_after(MISSED_PAUSE_SECONDS * 1.1)


def test_it_gives_way_when_others_want_the_core() -> None:
    machine = Machine()
    machine.taken_by_others_seconds = 2 * CONTENDED_SECONDS
    machine.request_after(0)
    machine.turn()
    assert not machine.looks
    assert not machine.request_after(CONTENDED_PAUSE_SECONDS / 2)
    # and for longer the next time
    assert machine.request_after(CONTENDED_PAUSE_SECONDS)
    machine.turn()
    assert not machine.looks
    assert not machine.request_after(1.5 * CONTENDED_PAUSE_SECONDS)
    assert machine.request_after(CONTENDED_PAUSE_SECONDS)


def test_a_long_look_that_nobody_disturbs_forgets_that_others_wanted_the_core() -> None:
    machine = Machine()
    machine.taken_by_others_seconds = 2 * CONTENDED_SECONDS
    for _ in range(10):
        machine.request_after(LONGEST_PAUSE_SECONDS)
        machine.look_until_asleep()
    machine.taken_by_others_seconds = 0.0
    machine.request_after(LONGEST_PAUSE_SECONDS)
    machine.turn()
    began = machine.now
    while machine.now < began + 2 * FORGOTTEN_AFTER_SECONDS:
        machine.request_after(LOOK_SECONDS / 2)
        machine.turn()
    machine.taken_by_others_seconds = 2 * CONTENDED_SECONDS
    machine.turn()
    assert not machine.looks
    assert machine.request_after(CONTENDED_PAUSE_SECONDS * 1.1)


def test_it_never_looks_where_that_is_switched_off() -> None:
    machine = Machine(0.0)
    assert not machine.request_after(10.0)


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POLL_VARIABLE, "off")
    assert look_seconds() == 0.0
