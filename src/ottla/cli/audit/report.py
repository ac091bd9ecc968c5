"""`ottla audit report`: what was sent, counted, lost, doubled and late, in each bucket of each topic."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from ottla.audit.core.book import DEFAULT_LATENESS_MS, Place
from ottla.audit.core.rows import Row, State, rounded_percent, row_fields
from ottla.audit.core.trend import LENGTHS, Trend, trend_fields, trends_of_rows
from ottla.audit.reading import read_book
from ottla.cli.frame.cluster import Session, asks_cluster
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.output import Output
from ottla.cli.frame.table import Column
from ottla.config.errors import UsageError

_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LENGTH: Final = re.compile(r"(\d{1,9})(s|m|h|d)")
_NUMBERS: Final = ("sent", "counted", "lost", "doubled", "late", "unknown", "unreported")
_COLUMNS: Final = (
    Column("bucket"),
    Column("tier"),
    Column("topic"),
    Column("state"),
    Column("percent", "%", right=True),
    *(Column(name, right=True) for name in _NUMBERS),
    Column("delay", right=True),
)


@command(
    "report",
    examples=[
        "ottla audit report",
        "ottla audit report --since 2h --tier lake --incomplete",
        "ottla audit report --json --details",
        "ottla audit report --trend",
        "ottla audit report --bootstrap app:9092 --also lake:9092",
    ],
)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated.")
@click.option("--tier", "tiers", multiple=True, metavar="NAME", help="Only this tier; may be repeated.")
@click.option(
    "--since", default="24h", show_default=True, metavar="LENGTH", help="How far back: 90s, 30m, 2h, 7d."
)
@click.option("--incomplete", is_flag=True, help="Only buckets of which something is lost.")
@click.option(
    "--trend",
    is_flag=True,
    help="Tell of each topic how complete the last hour and day are, against the ones before, in place of "
    "buckets; --since does not matter.",
)
@click.option("--details", is_flag=True, help="Name lost and doubled ones, hosts and partitions.")
@click.option(
    "--also",
    multiple=True,
    metavar="HOST:PORT,…",
    help="Another cluster to read from, with the same settings; may be repeated.",
)
@click.option(
    "--lateness-ms",
    type=click.IntRange(0, 86_400_000),
    default=DEFAULT_LATENESS_MS,
    show_default=True,
    help="How long behind its end a bucket is due.",
)
@asks_cluster
async def report(
    session: Session,
    topics: tuple[str, ...],
    tiers: tuple[str, ...],
    since: str,
    incomplete: bool,
    trend: bool,
    details: bool,
    also: tuple[str, ...],
    lateness_ms: int,
) -> int:
    """Tell what was sent, counted, lost, doubled and late in each bucket of time, topic and tier.

    A bucket is judged when its tier has been counted up to the time at which it was due; before that, what is
    missing is pending. The exit code is 3 if anything is lost.
    """
    if trend and incomplete:
        raise UsageError("give --trend or --incomplete, not both: a trend is of all buckets")
    now_ms = time.time_ns() // 1_000_000
    since_ms = now_ms - (2 * max(LENGTHS.values()) if trend else _length_ms(since))
    accesses = [session.access, *(dataclasses.replace(session.access, bootstrap=one) for one in also)]
    book = await read_book(accesses, lateness_ms, since_ms)
    rows = [
        row
        for row in book.rows()
        if (not topics or row.topic in topics)
        and (not tiers or row.tier in tiers)
        and (not incomplete or row.state is State.INCOMPLETE)
    ]
    output = session.output
    if trend:
        _say_trends(output, trends_of_rows(rows, now_ms))
    elif output.is_json:
        for row in rows:
            output.json(row_fields(row, details=details))
    else:
        empty = "nothing is incomplete" if incomplete else "nothing was sent or counted since then"
        output.listing([_shown(row) for row in rows], _COLUMNS, name="topic", empty=empty)
        if details:
            for row in rows:
                _say_details(session, row)
    is_lossy = any(row.state is State.INCOMPLETE for row in rows)
    return ExitCode.FOUND if is_lossy else ExitCode.DONE


def _shown(row: Row) -> dict[str, Any]:
    fields = row_fields(row)
    return {
        "bucket": _time(row.bucket_start_ms),
        "tier": row.tier,
        "topic": row.topic,
        "state": row.state.value,
        "percent": f"{rounded_percent(row.percent):g}",
        **{name: fields[name] for name in _NUMBERS},
        "delay": "" if row.delays_ms[-1] is None else f"{row.delays_ms[-1] / 1_000:g} s",
    }


def _say_trends(output: Output, trends: Mapping[Place, Mapping[str, Trend]]) -> None:
    """How complete each topic is, and by how many points more than before."""
    if output.is_json:
        for place, of_place in sorted(trends.items()):
            output.json({"topic": place.topic, "tier": place.tier, "trend": trend_fields(of_place)})
        return
    told = []
    for place, of_place in sorted(trends.items()):
        fields = {"tier": place.tier, "topic": place.topic}
        for name, one in of_place.items():
            fields[name] = "" if one.percent is None else f"{one.percent:g} %"
            fields[f"change {name}"] = "" if one.change is None else f"{one.change:+g}"
        told.append(fields)
    output.listing(told, name="topic", empty="nothing was sent or counted in two days")


def _say_details(session: Session, row: Row) -> None:
    """Name what is lost and doubled, for people."""
    where = f"{row.topic} in {row.tier}, {_time(row.bucket_start_ms)}"
    for word, count, ranges in (
        ("lost", row.lost, row.lost_ranges),
        ("doubled", row.doubled, row.doubled_ranges),
    ):
        for one in ranges:
            names = f"{one.first}" if one.first == one.last else f"{one.first} to {one.last}"
            host = one.host or "a host that has not reported"
            session.output.say(
                f"{where}: {word} {count} of {row.expected}: {names} of instance {one.instance} on {host}"
            )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _length_ms(text: str) -> int:
    """Raises UsageError."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise UsageError(f"--since {text!r} is not a length of time, as 90s, 30m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2]]
