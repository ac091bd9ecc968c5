"""Whether it gets better: how complete the last hour and the last day are, against the ones before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.audit.core.book import Place
from ottla.audit.core.rows import Row, rounded_percent
from ottla.audit.core.view import DAY_MS, HOUR_MS, AuditView, Sums, sum_of

LENGTHS: Final = {"1h": HOUR_MS, "24h": DAY_MS}


@dataclass(frozen=True, slots=True)
class Trend:
    """What is known of a span of time and of the one before it; None where nothing is judged."""

    percent: float | None
    before: float | None

    @property
    def change(self) -> float | None:
        """By how many points of a hundred it rose; None without anything to compare."""
        if self.percent is None or self.before is None:
            return None
        return round(self.percent - self.before, 4)


def trend_of(sums_by: Mapping[int, Sums], now_ms: int, length_ms: int) -> Trend:
    """The trend of sums by the beginning of their bucket or hour. What is pending is in neither span."""
    middle_ms = now_ms - length_ms
    last = sum_of(one for start, one in sums_by.items() if middle_ms <= start <= now_ms)
    before = sum_of(one for start, one in sums_by.items() if middle_ms - length_ms <= start < middle_ms)
    return Trend(_percent(last), _percent(before))


def trends_of_tier(view: AuditView, tier: str, now_ms: int) -> dict[str, Trend]:
    """The trends of a tier by the names of their lengths: the hour's from buckets, the day's from hours."""
    return {
        name: trend_of(
            view.of_tier(tier, 0 if length_ms == HOUR_MS else HOUR_MS, now_ms - 2 * length_ms),
            now_ms,
            length_ms,
        )
        for name, length_ms in LENGTHS.items()
    }


def trends_of_rows(rows: Iterable[Row], now_ms: int) -> dict[Place, dict[str, Trend]]:
    """The trends of each topic in each tier."""
    found: dict[Place, dict[int, Sums]] = {}
    for row in rows:
        sums_by = found.setdefault(Place(row.tier, row.topic), {})
        sums_by.setdefault(row.bucket_start_ms, Sums()).add(row)
    return {
        place: {name: trend_of(sums_by, now_ms, length_ms) for name, length_ms in LENGTHS.items()}
        for place, sums_by in found.items()
    }


def trend_fields(trends: Mapping[str, Trend]) -> dict[str, Any]:
    """Trends as JSON has them."""
    return {
        name: {"percent": one.percent, "before": one.before, "change": one.change}
        for name, one in trends.items()
    }


def _percent(sums: Sums) -> float | None:
    return rounded_percent(sums.percent) if sums.expected else None
