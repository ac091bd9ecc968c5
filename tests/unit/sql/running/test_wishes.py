"""The host is told what brings it to the wanted queries, whatever happens on the way."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.commands.state import PersistentQuery, Wish
from ottla.sql.language.parser import parse_script
from ottla.sql.plan.statement_plan import PutQuery, applied
from ottla.sql.running.messages import Ended, MessageError, Progress, Running, Start, decode, encode
from ottla.sql.running.state_words import status_word, streams_word
from ottla.sql.running.wishes import Backoff, Begin, Finish, Stage, Wishes

BACKOFF = Backoff(1.0, 8.0)


def query(id: str, revision: int = 1, wish: Wish = Wish.RUN) -> PersistentQuery:
    catalog = Catalog()
    plan = None
    script = (
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='json', partitions=1);"
        "CREATE STREAM t AS SELECT a FROM s;"
    )
    for parsed in parse_script(script):
        plan = Binder(catalog).bind(parsed.statement)
        catalog = applied(plan, catalog)
    assert isinstance(plan, PutQuery)
    return PersistentQuery(id, plan, "text", revision, 0, {}, wish)


def test_a_failed_query_starts_again_after_growing_pauses_and_the_others_go_on() -> None:
    wishes = Wishes(BACKOFF)
    wishes.want({"a": query("a"), "b": query("b")})
    assert [each.query.id for each in wishes.steps(0.0) if isinstance(each, Begin)] == ["a", "b"]
    wishes.running(Running("b", 1, 0.1))
    now = 0.0
    for pause in (1.0, 2.0, 4.0, 8.0, 8.0):
        wishes.ended(Ended("a", 1, "no topic"), now)
        assert wishes.steps(now + pause - 0.01) == []
        assert wishes.next_at() == now + pause
        now += pause
        (step,) = wishes.steps(now)
        assert isinstance(step, Begin)
        assert step.query.id == "a"
    assert wishes.lives["b"].stage is Stage.RUNNING
    wishes.running(Running("a", 1, 0.1))
    wishes.progressed(Progress("a", 0, 5, 1.0, 0, 0))
    wishes.ended(Ended("a", 1, "again"), now)
    assert wishes.next_at() == now + 1.0  # a batch that was done ends the row of failures


def test_a_query_is_told_to_run_only_while_it_does() -> None:
    wishes = Wishes(BACKOFF)
    wanted = query("a")

    def words() -> tuple[str, str]:
        life = wishes.lives.get("a")
        return status_word(wanted, life), streams_word(wanted, life)

    assert words() == ("UNRESPONSIVE", "CREATED")
    wishes.want({"a": wanted})
    assert words() == ("UNRESPONSIVE", "CREATED")
    wishes.steps(0.0)
    assert words() == ("UNRESPONSIVE", "REBALANCING")
    wishes.running(Running("a", 1, 0.1))
    assert words() == ("RUNNING", "RUNNING")
    wishes.host_ended(1.0)
    assert words() == ("UNRESPONSIVE", "CREATED")
    wishes.steps(1.0)
    wishes.ended(Ended("a", 1, "no topic"), 2.0)
    assert words() == ("ERROR", "ERROR")
    wishes.steps(3.0)
    assert words() == ("ERROR", "ERROR")  # it has not shown yet that it is better
    wishes.running(Running("a", 1, 0.1))
    assert words() == ("RUNNING", "RUNNING")
    wanted = query("a", revision=2)
    wishes.want({"a": wanted})
    wishes.steps(4.0)
    assert words() == ("UNRESPONSIVE", "PENDING_SHUTDOWN")
    wanted = query("a", wish=Wish.REST)
    assert words() == ("PAUSED", "PAUSED")


def test_a_new_plan_begins_where_the_old_one_has_ended() -> None:
    wishes = Wishes(BACKOFF)
    wishes.want({"a": query("a")})
    wishes.steps(0.0)
    wishes.running(Running("a", 1, 0.1))
    wishes.want({"a": query("a", 2)})
    assert wishes.steps(1.0) == [Finish("a", forget=False)]
    assert wishes.steps(1.0) == []
    wishes.ended(Ended("a", 1, None, {"s": {"0": 17}}), 2.0)
    assert wishes.steps(2.0) == []  # its end is not what was asked for: it may have failed just then
    wishes.stopped("a")
    (step,) = wishes.steps(2.0)
    assert isinstance(step, Begin)
    assert step.query.revision == 2
    assert wishes.lives["a"].took_over_at == {"s": {"0": 17}}


def test_a_query_that_is_gone_leaves_nothing_even_if_it_rested() -> None:
    wishes = Wishes(BACKOFF)
    wishes.want({"a": query("a")})
    wishes.steps(0.0)
    wishes.running(Running("a", 1, 0.1))
    wishes.want({"a": query("a", wish=Wish.REST)})
    assert wishes.steps(1.0) == [Finish("a", forget=False)]
    wishes.ended(Ended("a", 1), 1.0)
    wishes.stopped("a")
    assert wishes.steps(1.0) == []
    wishes.want({})
    assert wishes.unwanted == ["a"]
    assert wishes.steps(2.0) == [Finish("a", forget=True)]
    wishes.stopped("a")
    assert wishes.steps(2.0) == []
    assert wishes.unwanted == []


@pytest.mark.parametrize("seed", range(300))
def test_whatever_happens_the_wanted_queries_run_in_the_end(seed: int) -> None:
    """A host that carries out orders in any time, fails, and dies; wishes that change all the while."""
    dice = random.Random(seed)
    wishes, now = Wishes(BACKOFF), 0.0
    wanted: dict[str, PersistentQuery] = {}
    host: dict[str, int] = {}
    orders: list[Begin | Finish] = []
    revision = 1

    def carry_out() -> None:
        order = orders.pop(0)
        if isinstance(order, Begin):
            if dice.random() < 0.2:
                wishes.ended(Ended(order.query.id, order.query.revision, "it fails"), now)
                return
            assert order.query.id not in host, "one query runs twice"
            host[order.query.id] = order.query.revision
            wishes.running(Running(order.query.id, order.query.revision, 0.1))
        else:
            if order.query_id in host:
                wishes.ended(Ended(order.query_id, host.pop(order.query_id)), now)
            wishes.stopped(order.query_id)

    for _ in range(200):
        now += dice.random()
        match dice.randrange(6):
            case 0:
                revision += 1
                id = dice.choice("abcd")
                wanted[id] = query(id, revision)
            case 1 if wanted:
                del wanted[dice.choice(list(wanted))]
            case 2 if wanted:
                id = dice.choice(list(wanted))
                wanted[id] = replace(wanted[id], wish=dice.choice(list(Wish)))
            case 3 if dice.random() < 0.2:
                host.clear()
                orders.clear()
                wishes.host_ended(now)
        wishes.want(dict(wanted))
        orders += wishes.steps(now)
        if orders and dice.random() < 0.7:
            carry_out()
    for _ in range(200):
        now += 10.0
        orders += wishes.steps(now)
        while orders:
            carry_out()
    assert host == {id: each.revision for id, each in wanted.items() if each.wish is Wish.RUN}


def test_messages_come_back_as_they_were() -> None:
    for message in (
        Start("q", 1, "app", {"version": 1}, "latest", {"a": "b"}),
        Ended("q", 3, "why", {"t": {"0": 5}}),
        Progress("q", 1, 2, 3.5, 4, 5, {"t": {"1": 6}}),
    ):
        assert decode(encode(message)) == message
    for line in (b"", b"[]", b"{}", b'{"is": "Nothing"}', b'{"is": "Running", "query_id": 5, "x": 1}'):
        with pytest.raises(MessageError):
            decode(line)
