"""The trend compares what is judged of the last hour and day with the ones before."""

from __future__ import annotations

from ottla.audit.core.book import Place
from ottla.audit.core.rows import Row, State
from ottla.audit.core.trend import Trend, trend_fields, trends_of_rows, trends_of_tier
from ottla.audit.core.view import DAY_MS, HOUR_MS, AuditView
from ottla.audit.serve.page import Asked, body_of

NOW_MS = 20_000 * DAY_MS + 5 * HOUR_MS
SIZE = 600_000


def row(ago_ms: int, lost: int, tier: str = "lake", pending: int = 0) -> Row:
    start_ms = (NOW_MS - ago_ms) // SIZE * SIZE
    state = State.PENDING if pending else State.INCOMPLETE if lost else State.COMPLETE
    counted = 100 - lost - pending
    return Row("orders", tier, start_ms, SIZE, state, sent=100, counted=counted, lost=lost, pending=pending)


def test_each_span_is_compared_with_the_one_before_it() -> None:
    rows = [row(SIZE, 0), row(HOUR_MS - SIZE, 2), row(HOUR_MS + SIZE, 4), row(DAY_MS + HOUR_MS, 50)]
    (trends,) = trends_of_rows(rows, NOW_MS).values()
    assert trends == {"1h": Trend(99.0, 96.0), "24h": Trend(98.0, 50.0)}
    assert [one.change for one in trends.values()] == [3.0, 48.0]
    assert trend_fields(trends)["1h"] == {"percent": 99.0, "before": 96.0, "change": 3.0}


def test_the_view_and_the_rows_have_the_same_trends() -> None:
    rows = [row(ago * SIZE, ago % 7, tier) for ago in range(1, 140) for tier in ("app", "lake")]
    view = AuditView()
    for one in rows:
        view.take(one)
    by_rows = trends_of_rows(rows, NOW_MS)
    for tier in ("app", "lake"):
        assert trends_of_tier(view, tier, NOW_MS) == by_rows[Place(tier, "orders")]


def test_what_is_pending_makes_no_trend_and_nothing_has_none() -> None:
    rows = [row(SIZE, 0, pending=90), row(HOUR_MS + SIZE, 10)]
    trends = trends_of_rows(rows, NOW_MS)[Place("lake", "orders")]
    assert trends["1h"] == Trend(100.0, 90.0)
    assert trends["24h"].change is None and trends["24h"].before is None


def test_the_page_shows_the_trend_of_each_tier() -> None:
    view = AuditView()
    for one in (row(SIZE, 5), row(HOUR_MS + SIZE, 0)):
        view.take(one)
    body = body_of(view, Asked(), NOW_MS, {})
    assert '<dt>trend, 1h</dt><dd><span class=bad title="from 100 % to 95 %">-5</span></dd>' in body
    assert "<dt>trend, 24h</dt><dd>–</dd>" in body
