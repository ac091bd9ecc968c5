"""The demo's page: the pipeline's figures as a page of the terminal, or as a plain line."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ottla.demo.messages import COUNTS, SCORED, SENTIMENTS, TWEETS
from ottla.demo.monitor import Seen
from ottla.demo.query import WINDOW_SECONDS

RATE_WINDOW_SECONDS = 5.0
BAR_WIDTH = 30
COLOURS = {"positive": "green", "neutral": "yellow", "negative": "red"}
_WINDOW_ROWS = 6


@dataclass(frozen=True, slots=True)
class Picture:
    """The figures of the page. produced: tweets in the topic; total: tweets that there will be."""

    elapsed_seconds: float
    bootstrap: str
    document_store: str
    search_index: str
    phase: str
    produced: int
    total: int
    produced_rate: float
    scored_rate: float
    stored: int
    indexed: int
    seen: Seen
    verdict: str | None = None


@dataclass(slots=True)
class Rate:
    """Items a second over the last few seconds, from a counter that is read now and then."""

    _points: deque[tuple[float, int]] = field(default_factory=deque)

    def update(self, count: int, now: float | None = None) -> float:
        now = time.monotonic() if now is None else now
        self._points.append((now, count))
        while len(self._points) > 2 and now - self._points[0][0] > RATE_WINDOW_SECONDS:
            self._points.popleft()
        then, before = self._points[0]
        return max(0.0, (count - before) / (now - then)) if now > then else 0.0


def plain_line(picture: Picture) -> str:
    """The picture as one line, for output without a terminal."""
    seen = picture.seen
    shares = " ".join(f"{name} {_share(seen, name):.0f}%" for name in SENTIMENTS)
    return (
        f"{picture.elapsed_seconds:5.0f} s  {picture.phase}: produced {picture.produced}/{picture.total} "
        f"({picture.produced_rate:.0f}/s), scored {seen.scored} ({picture.scored_rate:.0f}/s), "
        f"stored {picture.stored}, indexed {picture.indexed}, lag {_number(seen.scoring_lag)}; {shares}; "
        f"{_agreement(seen)}"
    )


def page(picture: Picture) -> RenderableType:
    """The picture as a page of the terminal."""
    title = f"ottla demo · {picture.phase} · {picture.elapsed_seconds:.0f} s"
    top = Table.grid(expand=True, padding=(0, 2))
    top.add_column(ratio=1)
    top.add_column(ratio=1)
    top.add_row(_flow(picture), _sentiment(picture.seen))
    parts: list[RenderableType] = [top, Text(), _windows(picture.seen), Text(), _tweets(picture.seen)]
    if picture.verdict is not None:
        parts += [Text(), Text(picture.verdict, style="bold green")]
    return Panel(Group(*parts), title=title, subtitle="Ctrl-C ends it", border_style="cyan")


def _flow(picture: Picture) -> Table:
    seen = picture.seen
    table = Table.grid(padding=(0, 1))
    table.add_column(style="cyan")
    table.add_column(justify="right")
    table.add_column(style="dim")
    table.add_row(
        TWEETS, f"{picture.produced:,} of {picture.total:,}", f"{picture.produced_rate:.0f}/s produced"
    )
    table.add_row(SCORED, f"{seen.scored:,}", f"{picture.scored_rate:.0f}/s scored by Spark")
    table.add_row(picture.document_store, f"{picture.stored:,}", "documents")
    table.add_row(picture.search_index, f"{picture.indexed:,}", "indexed")
    table.add_row("lag", _number(seen.scoring_lag), f"scoring; counting {_number(seen.counting_lag)}")
    table.add_row("broker", picture.bootstrap, "any Kafka client can look")
    return table


def _sentiment(seen: Seen) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    for name in SENTIMENTS:
        share = _share(seen, name)
        filled = round(share / 100 * BAR_WIDTH)
        bar = Text("█" * filled, style=COLOURS[name]) + Text("·" * (BAR_WIDTH - filled), style="dim")
        table.add_row(Text(name, style=COLOURS[name]), bar, f"{share:.0f}%")
    table.add_row("", "", "")
    table.add_row("humans", Text(_agreement(seen), style="bold"), "")
    return table


def _windows(seen: Seen) -> Table:
    table = Table(
        box=None, expand=True, title=f"{COUNTS}: windows of {WINDOW_SECONDS} s", title_justify="left"
    )
    table.add_column("posted at (UTC)", style="cyan")
    for name in SENTIMENTS:
        table.add_column(name, justify="right", style=COLOURS[name])
    table.add_column("", ratio=1)
    for start, counts in seen.windows[-_WINDOW_ROWS:]:
        clock = time.strftime("%H:%M:%S", time.gmtime(start / 1000))
        table.add_row(clock, *(str(counts.get(name, 0)) for name in SENTIMENTS), _stacked(counts))
    return table


def _stacked(counts: dict[str, int]) -> Text:
    total = sum(counts.values()) or 1
    bar = Text()
    for name in SENTIMENTS:
        bar.append("▬" * round(counts.get(name, 0) / total * BAR_WIDTH), style=COLOURS[name])
    return bar


def _tweets(seen: Seen) -> Table:
    table = Table(box=None, expand=True, title="the last tweets", title_justify="left")
    table.add_column("VADER", justify="right", width=6)
    table.add_column("human", justify="right", width=6)
    table.add_column("tweet", ratio=1, no_wrap=True, overflow="ellipsis")
    for tweet in reversed(seen.last_tweets):
        colour = COLOURS.get(tweet.sentiment, "white")
        # People rate from -4 to 4, VADER from -1 to 1.
        table.add_row(
            Text(f"{tweet.compound:+.2f}", style=f"bold {colour}"),
            Text(f"{tweet.human_score / 4:+.2f}", style="dim"),
            Text(" ".join(tweet.text.split()), style=colour),
        )
    return table


def _share(seen: Seen, sentiment: str) -> float:
    return 100.0 * seen.sentiments.get(sentiment, 0) / seen.scored if seen.scored else 0.0


def _agreement(seen: Seen) -> str:
    if seen.sign_percent is None or seen.pearson_r is None:
        return "no scores to compare yet"
    return f"same sign {seen.sign_percent:.1f}%, r {seen.pearson_r:.3f}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
