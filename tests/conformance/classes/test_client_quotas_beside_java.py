"""Throttle times beside Apache Kafka's own quota managers: drawn quotas, clients, amounts, clocks."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from ottla.core.quotas.client_quotas import MutationQuotas, RateQuotas
from ottla.core.quotas.entities import ClientEntity, ClientLimits, Unnamed
from support.clients.named_states import seed_of_this_run
from support.java.java_tools import compile_java, java_command, kafka_classpath

pytestmark = [pytest.mark.java, pytest.mark.long]

ORACLE = Path(__file__).parents[2] / "support" / "java" / "QuotaOracle.java"
STORIES = 150
LONGEST = str(2**31 - 1)
LONG_REST_MS = 10**12
"""Every debt is paid by then."""
START_MS = 1_700_000_000_000
USERS = ("alice", "bob", "carol")
CLIENTS = ("app", "batch", "cli")
PARTS = {"*": Unnamed.DEFAULT, ".": Unnamed.ABSENT}

Orders: TypeAlias = Iterator[tuple[str, ...]]


class Story:
    """One manager's life: quotas are set, clients come; when nothing counts any more, other quotas are set.

    Apache Kafka counts for clients without a limit too, once any has one, and keeps the count of a limit
    that is removed; so a limit that is set meanwhile finds a history there, and none here.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.kind = rng.choice(("bytes", "request", "mutation"))
        self.samples = rng.choice((1, 2, 3, 11, 11, 11))
        self.window_s = rng.choice((1, 1, 2, 5))
        self.limits: dict[tuple[str, str], float] = {}
        self.now_ms = START_MS + rng.randrange(10_000)

    def orders(self) -> Orders:
        yield "new", self.kind, str(self.samples), str(self.window_s)
        for _ in range(3):
            yield from self.change_limits()
            for _ in range(40):
                yield from self.use()
            self.now_ms += LONG_REST_MS

    def change_limits(self) -> Orders:
        for _ in range(self.rng.randint(0, 4)):
            user = self.rng.choice((*USERS, "*", "."))
            client = self.rng.choice((*CLIENTS, "*", "."))
            if (user, client) == (".", "."):
                continue
            if (user, client) in self.limits and self.rng.random() < 0.5:
                del self.limits[user, client]
                yield "limit", user, client, "-"
            else:
                limit = self.rng.choice((0.5, 1.0, 5.0, 100.0, float(self.rng.randint(1, 10**6))))
                self.limits[user, client] = limit
                yield "limit", user, client, repr(limit)

    def use(self) -> Orders:
        window_ms = self.window_s * 1000
        self.now_ms += self.rng.choice(
            (0, 1, self.rng.randrange(window_ms), window_ms, self.rng.randrange(3 * window_ms * self.samples))
            if self.rng.random() < 0.9
            else (window_ms * self.samples, window_ms * (self.samples - 1), window_ms * self.samples - 1)
        )
        user, client = self.rng.choice(USERS), self.rng.choice(CLIENTS)
        typical = self.rng.choice((*self.limits.values(), 1.0)) * self.window_s
        amount = self.rng.choice((0.0, typical, typical * self.samples, self.rng.random() * typical * 4))
        if self.kind == "mutation":
            yield self.rng.choice(("admit", "permit")), str(self.now_ms), user, client, repr(amount)
            return
        yield "record", str(self.now_ms), user, client, repr(amount)
        if self.rng.random() < 0.15:
            yield "back", str(self.now_ms), user, client, repr(amount)
        if self.rng.random() < 0.1:
            yield "most", user, client


class Ours:
    """The same orders, answered by ottla's quotas."""

    def __init__(self) -> None:
        self.quotas: RateQuotas | MutationQuotas
        self.limits: dict[ClientEntity, float] = {}

    def answer(self, order: tuple[str, ...]) -> str:
        match order:
            case ("new", kind, samples, window_s):
                window_ms = int(window_s) * 1000
                self.limits = {}
                if kind == "mutation":
                    self.quotas = MutationQuotas(int(samples), window_ms)
                elif kind == "request":
                    self.quotas = RateQuotas(int(samples), window_ms, longest_throttle_ms=window_ms)
                else:
                    self.quotas = RateQuotas(int(samples), window_ms)
            case ("limit", user, client, value):
                entity = ClientEntity(PARTS.get(user, user), PARTS.get(client, client))
                if value == "-":
                    del self.limits[entity]
                else:
                    self.limits[entity] = float(value)
                self.quotas.set_limits(ClientLimits(self.limits))
            case ("most", user, client):
                assert isinstance(self.quotas, RateQuotas)
                most = self.quotas.most_at_once(user, client)
                return "any" if most is None else repr(most)
            case (word, now_ms, user, client, amount):
                return self.recorded(word, user, client, float(amount), int(now_ms))
        return "ok"

    def recorded(self, word: str, user: str, client: str, amount: float, now_ms: int) -> str:
        if isinstance(self.quotas, RateQuotas):
            if word == "record":
                return str(self.quotas.record(user, client, amount, now_ms))
            self.quotas.take_back(user, client, amount, now_ms)
            return "ok"
        use = self.quotas.admit if word == "admit" else self.quotas.record
        return str(use(user, client, amount, now_ms))


def kafkas(orders: list[tuple[str, ...]], directory: Path) -> list[str]:
    asked, answered = directory / "orders", directory / "answers"
    asked.write_text("".join(f"{' '.join(order)}\n" for order in orders))
    class_path = compile_java([ORACLE], kafka_classpath(), directory / "classes")
    command = java_command("QuotaOracle", str(asked), str(answered), class_path=class_path)
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return answered.read_text().splitlines()


def test_clients_are_throttled_for_as_long_as_in_kafka(tmp_path: Path) -> None:
    rng = random.Random(seed_of_this_run())
    orders = [order for _ in range(STORIES) for order in Story(rng).orders()]
    ours = Ours()
    throttled = 0
    for number, (order, expected) in enumerate(zip(orders, kafkas(orders, tmp_path), strict=True)):
        answer = ours.answer(order)
        if order[0] == "most":
            # Kafka's word for "any amount" is the largest number times the windows.
            largest = float(expected) >= 2**62
            assert (answer == "any") == largest and (largest or float(answer) == float(expected)), order
            continue
        if answer == LONGEST:
            continue  # Apache Kafka lets such a number wrap round to any other
        throttled += answer not in ("ok", "0")
        began = max(at for at in range(number + 1) if orders[at][0] == "new") if answer != expected else 0
        assert answer == expected, f"{order}: after {orders[began:number]}"
    assert throttled > len(orders) / 20


def test_a_client_without_a_client_id_escapes_in_kafka_only(tmp_path: Path) -> None:
    """The one place where the rules differ on purpose; the oracle shows that they still do."""
    quotas = RateQuotas(11, 1000)
    quotas.set_limits(ClientLimits({ClientEntity(Unnamed.ABSENT, Unnamed.DEFAULT): 1.0}))
    assert quotas.record("alice", "", 100.0, START_MS) > 0
    orders = [
        ("new", "bytes", "11", "1"),
        ("limit", ".", "*", "1.0"),
        ("record", str(START_MS), "alice", "", "100.0"),
        ("record", str(START_MS), "alice", "app", "100.0"),
    ]
    without, with_id = kafkas(orders, tmp_path)[2:]
    assert without == "0" and int(with_id) > 0
