"""Queries begin a few at a time, and what can wait begins after all of them."""

from __future__ import annotations

import threading

from ottla.sql.running.host import Beginnings

SECONDS = 30.0


def test_what_can_wait_begins_when_no_query_does() -> None:
    beginnings = Beginnings(6)
    threading.Thread(target=beginnings.run, daemon=True).start()
    order: list[str] = []
    go_on, done = threading.Event(), threading.Event()

    def query(name: str) -> None:
        with beginnings.one():
            go_on.wait(SECONDS)
            order.append(name)

    queries = [threading.Thread(target=query, args=(f"query {number}",)) for number in range(5)]
    for each in queries:
        each.start()
    with beginnings.one():
        beginnings.later(lambda: order.append("first dead letters"))
        beginnings.later(lambda: (order.append("second dead letters"), done.set())[0])
        assert not done.wait(0.2)
        go_on.set()
        for each in queries:
            each.join(SECONDS)
        assert sorted(order) == [f"query {number}" for number in range(5)]
    assert done.wait(SECONDS)
    assert order[5:] == ["first dead letters", "second dead letters"]


def test_a_few_begin_at_a_time() -> None:
    beginnings, together = Beginnings(2), threading.Semaphore(2)
    free: list[bool] = []

    def query() -> None:
        with beginnings.one():
            free.append(together.acquire(blocking=False))
            together.release()

    queries = [threading.Thread(target=query) for _ in range(20)]
    for each in queries:
        each.start()
    for each in queries:
        each.join(SECONDS)
    assert free == [True] * 20
