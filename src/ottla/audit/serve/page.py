"""The Audit page: tiers over time, how much got through, and from a gap down to topic, partition and host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final
from urllib.parse import urlencode

from ottla.audit.core.book import Key, Place
from ottla.audit.core.rows import NamedRange, Row, State, rounded_percent
from ottla.audit.core.trend import Trend, trends_of_tier
from ottla.audit.core.view import DAY_MS, HOUR_MS, AuditView, Sums, sum_of

WIDTH: Final = 960
HEIGHT: Final = 220
LEFT: Final = 64
BOTTOM: Final = 24
COLOURS: Final = 4
TOPICS: Final = 100
"""Shown at once, the worst first."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time that can be chosen. step_ms: 0 for buckets."""

    name: str
    length_ms: int
    step_ms: int


SPANS: Final = (
    Span("6h", 6 * HOUR_MS, 0),
    Span("24h", DAY_MS, 0),
    Span("7d", 7 * DAY_MS, HOUR_MS),
    Span("30d", 30 * DAY_MS, DAY_MS),
    Span("1y", 365 * DAY_MS, DAY_MS),
)
DEFAULT_SPAN: Final = SPANS[1]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request wants to see."""

    span: Span = DEFAULT_SPAN
    tier: str = ""
    topic: str = ""
    bucket_start_ms: int | None = None
    words: str = ""


def span_of(name: str) -> Span:
    """The span of this name, else the default one."""
    return next((one for one in SPANS if one.name == name), DEFAULT_SPAN)


def body_of(view: AuditView, asked: Asked, now_ms: int, caught_up_ms: Mapping[str, int]) -> str:
    """The page's content."""
    if asked.topic and asked.tier and asked.bucket_start_ms is not None:
        return _bucket(view, asked)
    if asked.topic:
        return _topic(view, asked, now_ms)
    return _overview(view, asked, now_ms, caught_up_ms)


# -- the overview ------------------------------------------------------------------------------------------


def _overview(view: AuditView, asked: Asked, now_ms: int, caught_up_ms: Mapping[str, int]) -> str:
    since_ms, step_ms = now_ms - asked.span.length_ms, asked.span.step_ms
    tiers = view.tiers()
    if not tiers:
        return (
            "<h1>Audit</h1><p>Nothing was sent or counted yet. Producers report with <code>AuditedProducer"
            "</code>, and <code>ottla audit count</code> counts a cluster.</p>"
        )
    of_tiers = {tier: view.of_tier(tier, step_ms, since_ms) for tier in tiers}
    cards = "".join(
        _card(
            asked,
            tier,
            sum_of(steps.values()),
            caught_up_ms.get(tier),
            now_ms,
            trends_of_tier(view, tier, now_ms),
        )
        for tier, steps in of_tiers.items()
    )
    return (
        f"<h1>Audit</h1>{_spans(asked)}<div class=cards>{cards}</div>"
        f"<h2>Messages in each tier</h2>{_chart(of_tiers, asked)}{_topics(view, asked, now_ms, tiers)}"
    )


def _card(
    asked: Asked,
    tier: str,
    sums: Sums,
    caught_up_ms: int | None,
    now_ms: int,
    trends: Mapping[str, Trend],
) -> str:
    counted = "never" if caught_up_ms is None else f"{max(now_ms - caught_up_ms, 0) // 1_000} s ago"
    changes = "".join(f"<dt>trend, {name}</dt><dd>{_trend(one)}</dd>" for name, one in trends.items())
    return (
        f'<section class=card><a href="{_link(asked, tier=tier)}">{escape(tier)}</a>'
        f"{_percent(sums.percent, 'b')}"
        f"<dl><dt>sent</dt><dd>{sums.sent:,}</dd><dt>lost</dt><dd>{_bad(sums.lost)}</dd>"
        f"<dt>doubled</dt><dd>{_bad(sums.doubled)}</dd><dt>late</dt><dd>{sums.late:,}</dd>{changes}"
        f"<dt>counted up to</dt><dd>{counted}</dd></dl></section>"
    )


def _topics(view: AuditView, asked: Asked, now_ms: int, tiers: Sequence[str]) -> str:
    """The topics, the worst first, with how much of each is in each tier."""
    found: dict[str, dict[str, tuple[str, Sums]]] = {}
    for place in view.places(asked.tier or None, asked.words):
        sums = view.total(place, asked.span.step_ms, now_ms - asked.span.length_ms, now_ms)
        if sums.counted or sums.expected:
            name = _common(view, place)
            found.setdefault(name, {})[place.tier] = (place.topic, sums)
    shown_tiers = [asked.tier] if asked.tier else list(tiers)
    ordered = sorted(
        found.items(), key=lambda item: (min(sums.percent for _, sums in item[1].values()), item[0])
    )
    rows = []
    for name, by_tier in ordered[:TOPICS]:
        cells = [f"<td>{escape(name)}</td>"]
        total = sum_of(sums for _, sums in by_tier.values())
        for tier in shown_tiers:
            one = by_tier.get(tier)
            if one is None:
                cells.append('<td class="n soft">–</td>')
                continue
            link = _link(asked, tier=tier, topic=one[0])
            cells.append(f'<td class=n><a href="{link}">{_percent(one[1].percent)}</a></td>')
        sent = max(sums.expected for _, sums in by_tier.values())
        cells += [f"<td class=n>{sent:,}</td>", f"<td class=n>{_bad(total.lost)}</td>"]
        cells += [f"<td class=n>{_bad(total.doubled)}</td>", f"<td class=n>{total.late:,}</td>"]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    more = f"<p class=soft>{len(ordered) - TOPICS:,} more</p>" if len(ordered) > TOPICS else ""
    up = f'<a class=up href="{_link(asked, tier="")}">all tiers</a>' if asked.tier else ""
    return (
        f'<h2>Topics</h2><form class=bar method=get><input id=filter name=q value="{escape(asked.words)}" '
        'placeholder="part of a name ( / )" aria-label="Part of a topic\'s name">'
        f'<input type=hidden name=range value="{asked.span.name}">'
        f'<input type=hidden name=tier value="{escape(asked.tier)}"><button>Show</button>{up}</form>'
        f"{_table(['topic'], [*shown_tiers, 'sent', 'lost', 'doubled', 'late'], ''.join(rows))}{more}"
    )


def _common(view: AuditView, place: Place) -> str:
    """The name under which a topic and its mirrored copies stand in one line."""
    name, tiers = place.topic, view.tiers()
    while True:
        _, dot, rest = name.partition(".")
        if not dot:
            return place.topic
        if any(Place(tier, rest) in view.known_places for tier in tiers):
            return rest
        name = rest


# -- one topic ---------------------------------------------------------------------------------------------


def _topic(view: AuditView, asked: Asked, now_ms: int) -> str:
    since_ms, step_ms = now_ms - asked.span.length_ms, asked.span.step_ms
    places = [place for place in view.places(asked.tier or None) if place.topic == asked.topic]
    series = {place.tier: view.of_place(place, step_ms, since_ms) for place in places}
    rows = [row for place in places for row in view.rows_of(place, since_ms)]
    rows.sort(key=lambda row: (row.state is not State.INCOMPLETE, -row.bucket_start_ms))
    lines = "".join(
        f'<tr><td><a href="{_link(asked, tier=row.tier, bucket=row.bucket_start_ms)}">'
        f"{_time(row.bucket_start_ms)}</a></td><td>{escape(row.tier)}</td>"
        f"<td>{_state(row)}</td><td class=n>{_row_percent(row)}</td><td class=n>{row.sent:,}</td>"
        f"<td class=n>{row.counted:,}</td><td class=n>{_bad(row.lost)}</td>"
        f"<td class=n>{_bad(row.doubled)}</td><td class=n>{row.late:,}</td>"
        f"<td class=n>{_delay(row.delays_ms[-1])}</td></tr>"
        for row in rows[:300]
    )
    up = f'<a class=up href="{_link(asked, topic="", tier="")}">all topics</a>'
    numbers = ["there", "sent", "counted", "lost", "doubled", "late", "all after"]
    return (
        f"<h1>{escape(asked.topic)}</h1><p>{up}</p>{_spans(asked)}{_chart(series, asked)}<h2>Buckets</h2>"
        f"{_table(['bucket', 'tier', 'state'], numbers, lines)}"
        "<p class=soft>Buckets of the last day; older ones are in the sums above.</p>"
    )


def _bucket(view: AuditView, asked: Asked) -> str:
    assert asked.bucket_start_ms is not None
    row = view.rows.get(Key(asked.tier, asked.topic, asked.bucket_start_ms))
    up = f'<p><a class=up href="{_link(asked, bucket=None)}">{escape(asked.topic)}</a></p>'
    if row is None:
        return f"<h1>No such bucket</h1>{up}<p>It is older than a day, or nothing was sent in it.</p>"
    facts = "".join(
        f"<dt>{name}</dt><dd>{value:,}</dd>"
        for name, value in (
            ("sent", row.sent),
            ("counted", row.counted),
            ("lost", row.lost),
            ("pending", row.pending),
            ("unknown", row.unknown),
            ("doubled", row.doubled),
            ("of them on the way", row.remirrored),
            ("late", row.late),
            ("unreported", row.unreported),
            ("without a mark", row.unmarked),
        )
    )
    hosts = "".join(
        f"<tr><td>{escape(host) or '<span class=soft>not reported</span>'}</td><td class=n>{one.sent:,}</td>"
        f"<td class=n>{_bad(one.missing)}</td><td class=n>{one.unreported:,}</td></tr>"
        for host, one in sorted(row.hosts.items(), key=lambda item: (-item[1].missing, item[0]))
    )
    partitions = "".join(
        f"<tr><td>{number}</td><td class=n>{count:,}</td></tr>"
        for number, count in sorted(row.partitions.items())
    )
    return (
        f"<h1>{escape(row.topic)} in {escape(row.tier)}, {_time(row.bucket_start_ms)}</h1>{up}"
        f"<div class=cards><section class=card>{_state(row)}{_row_percent(row, 'b')}<dl>{facts}</dl>"
        f"</section></div><h2>Hosts</h2>{_table(['host'], ['sent', 'missing', 'unreported'], hosts)}"
        f"<h2>Partitions</h2>{_table(['partition'], ['counted'], partitions)}"
        f"{_ranges('Lost', row.lost_ranges)}{_ranges('Doubled', row.doubled_ranges)}"
    )


def _ranges(title: str, ranges: Sequence[NamedRange]) -> str:
    if not ranges:
        return ""
    lines = "".join(
        f"<tr><td>{escape(one.host)}</td><td>{escape(one.instance)}</td><td class=n>{one.first:,}</td>"
        f"<td class=n>{one.last:,}</td></tr>"
        for one in ranges
    )
    return f"<h2>{title}</h2>{_table(['host', 'instance'], ['first', 'last'], lines)}"


# -- parts -------------------------------------------------------------------------------------------------


def _chart(series: Mapping[str, Mapping[int, Sums]], asked: Asked) -> str:
    """Bars of what was counted once, by tier side by side, with what is lost on top."""
    starts = sorted({start for steps in series.values() for start in steps})
    if not starts:
        return "<p class=soft>Nothing in this range.</p>"
    most = max((sums.expected for steps in series.values() for sums in steps.values()), default=0) or 1
    top = _round_up(most)
    room = (WIDTH - LEFT) / len(starts)
    width = min(max(room * 0.9 / max(len(series), 1), 0.6), 48.0)
    scale = (HEIGHT - BOTTOM - 8) / top
    bars = []
    for place, start in enumerate(starts):
        for number, (tier, steps) in enumerate(series.items()):
            sums = steps.get(start)
            if sums is None or not sums.expected:
                continue
            left = LEFT + place * room + number * width
            there, lost = sums.there * scale, (sums.expected - sums.there) * scale
            base = HEIGHT - BOTTOM
            told = f"{_time(start)}, {tier}: {sums.there:,} of {sums.expected:,}"
            shapes = (
                f'<rect class="s{number % COLOURS}" x="{left:.1f}" y="{base - there:.1f}" '
                f'width="{width:.1f}" height="{there:.1f}"/>'
            )
            if lost > 0:
                height = max(lost, 2.0)
                shapes += (
                    f'<rect class=lost x="{left:.1f}" y="{base - there - height:.1f}" width="{width:.1f}" '
                    f'height="{height:.1f}"/>'
                )
            title = f"<title>{escape(told)}</title>"
            if asked.topic and not asked.span.step_ms:
                link = _link(asked, tier=tier, bucket=start)
                bars.append(f'<a href="{link}" aria-label="{escape(told)}">{title}{shapes}</a>')
            else:
                bars.append(f"<g>{title}{shapes}</g>")
    lines = "".join(
        f'<line class=axis x1="{LEFT}" x2="{WIDTH}" y1="{HEIGHT - BOTTOM - part * top * scale:.1f}" '
        f'y2="{HEIGHT - BOTTOM - part * top * scale:.1f}"/><text x="{LEFT - 6}" text-anchor="end" '
        f'y="{HEIGHT - BOTTOM - part * top * scale + 4:.1f}">{_short(part * top)}</text>'
        for part in (0, 0.5, 1)
    )
    marks = "".join(
        f'<text x="{LEFT + place * room:.1f}" y="{HEIGHT - 6}">{_label(starts[place], asked.span)}</text>'
        for place in range(0, len(starts), max(len(starts) // 6, 1))
    )
    kinds = [(f"s{number % COLOURS}", tier) for number, tier in enumerate(series)]
    names = "".join(
        f'<span><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="{kind}" width="10" height="10"/>'
        f"</svg> {escape(name)}</span>"
        for kind, name in (*kinds, ("lost", "missing"))
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Messages over time">{lines}'
        f"{''.join(bars)}{marks}</svg><p class=legend>{names}</p>"
    )


def _table(names: Sequence[str], numbers: Sequence[str], lines: str) -> str:
    """A table of these columns, those of numbers aligned right. lines: its rows as HTML."""
    heads = "".join(f"<th scope=col>{escape(name)}</th>" for name in names)
    heads += "".join(f"<th scope=col class=n>{escape(name)}</th>" for name in numbers)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return f"<div class=scroll tabindex=0>{table}</div>"


def _spans(asked: Asked) -> str:
    current = " aria-current=true"
    links = "".join(
        f'<a href="{_link(asked, span=one)}"{current if one is asked.span else ""}>{one.name}</a>'
        for one in SPANS
    )
    return f'<nav class=bar aria-label="Range">{links}</nav>'


_KEEP: Final = "\0"


def _link(
    asked: Asked,
    *,
    span: Span | None = None,
    tier: str = _KEEP,
    topic: str = _KEEP,
    bucket: int | None = None,
) -> str:
    fields = {"range": (span or asked.span).name}
    tier = asked.tier if tier == _KEEP else tier
    topic = asked.topic if topic == _KEEP else topic
    if tier:
        fields["tier"] = tier
    if topic:
        fields["topic"] = topic
    if bucket is not None:
        fields["bucket"] = str(bucket)
    if asked.words and not topic:
        fields["q"] = asked.words
    return escape(f"?{urlencode(fields)}")


def _percent(percent: float, element: str = "span") -> str:
    kind = "good" if percent >= 100 else "bad"
    return f"<{element} class={kind}>{rounded_percent(percent):g} %</{element}>"


def _row_percent(row: Row, element: str = "span") -> str:
    """In the colour of a loss only if the bucket is judged."""
    if row.state in (State.PENDING, State.RECOUNT):
        return f"<{element} class=soft>{rounded_percent(row.percent):g} %</{element}>"
    return _percent(row.percent, element)


def _bad(number: int) -> str:
    return f"<span class=bad>{number:,}</span>" if number else "0"


def _trend(trend: Trend) -> str:
    """How much more complete a span is than the one before, in points of a hundred."""
    change = trend.change
    if change is None:
        return "–"
    told = f"from {trend.before:g} % to {trend.percent:g} %"
    kind = "bad" if change < 0 else "good" if change > 0 else "soft"
    return f'<span class={kind} title="{told}">{change:+g}</span>'


def _state(row: Row) -> str:
    kind = {State.COMPLETE: "good", State.INCOMPLETE: "bad"}.get(row.state, "soft")
    return f"<span class={kind}>{row.state.value}</span>"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _label(at_ms: int, span: Span) -> str:
    text = "%H:%M" if span.length_ms <= DAY_MS else "%b %d"
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime(text)


def _delay(delay_ms: int | None) -> str:
    return "–" if delay_ms is None else f"{delay_ms / 1_000:g} s"


def _round_up(number: float) -> float:
    size = 10.0 ** math.floor(math.log10(number))
    return next(step * size for step in (1, 2, 5, 10) if step * size >= number)


def _short(number: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g} {unit}"
    return f"{number:g}"
