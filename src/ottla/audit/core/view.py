"""What the page shows: recent rows, and their sums by hour and day for each topic and each tier.

Sums follow the rows: when a row changes, its old numbers are taken away and the new ones added, so a view of
a year adds up days and not buckets. Rows leave after a day; their sums stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.audit.core.book import Book, Key, Place
from ottla.audit.core.rows import Row, State

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
KEPT_ROWS_MS: Final = 26 * HOUR_MS
KEPT_HOURS_MS: Final = 8 * DAY_MS
KEPT_DAYS_MS: Final = 400 * DAY_MS


@dataclass(slots=True)
class Sums:
    """Numbers of some rows. expected: what was sent, as far as anybody can know, without what is pending.
    there: of these, once.
    """

    sent: int = 0
    counted: int = 0
    expected: int = 0
    there: int = 0
    lost: int = 0
    doubled: int = 0
    late: int = 0
    unreported: int = 0
    incomplete: int = 0

    def add(self, row: Row, sign: int = 1) -> None:
        """Add a row, or take it away."""
        expected = row.expected - row.pending
        self.sent += sign * row.sent
        self.counted += sign * row.counted
        self.expected += sign * expected
        self.there += sign * (expected - row.lost)
        self.lost += sign * row.lost
        self.doubled += sign * row.doubled
        self.late += sign * row.late
        self.unreported += sign * row.unreported
        self.incomplete += sign * (row.state is State.INCOMPLETE)

    def include(self, other: Sums) -> None:
        """Add other sums."""
        self.sent += other.sent
        self.counted += other.counted
        self.expected += other.expected
        self.there += other.there
        self.lost += other.lost
        self.doubled += other.doubled
        self.late += other.late
        self.unreported += other.unreported
        self.incomplete += other.incomplete

    @property
    def percent(self) -> float:
        """How much of what was sent is there; 100 without anything."""
        return 100.0 * self.there / self.expected if self.expected else 100.0


@dataclass(slots=True)
class _Steps:
    """Sums by the beginning of an hour and of a day."""

    hours: dict[int, Sums] = field(default_factory=dict)
    days: dict[int, Sums] = field(default_factory=dict)


class AuditView:
    """Recent rows and sums. `refresh` takes over what has changed in the book."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self.version = 0
        """Rises with each change."""
        self._of_place: dict[Place, dict[int, Key]] = {}
        self._places: dict[Place, _Steps] = {}
        self._tiers: dict[str, _Steps] = {}
        self._recent: dict[str, dict[int, Sums]] = {}
        """Of each tier by bucket, as long as there are rows."""

    def refresh(self, book: Book, now_ms: int) -> list[Row]:
        """Take over the rows that have changed, and forget old ones; returns those that are new."""
        changed = [row for row in book.rows(book.changed) if self.take(row)]
        book.changed.clear()
        before_ms = now_ms - KEPT_ROWS_MS
        for key in [key for key in self.rows if key.bucket_start_ms < before_ms]:
            del self.rows[key]
            del self._of_place[Place(key.tier, key.topic)][key.bucket_start_ms]
        if any(key.bucket_start_ms < before_ms for key in book.oldest()):
            book.forget(before_ms)
        for recent in self._recent.values():
            _drop(recent, before_ms)
        for steps in (*self._places.values(), *self._tiers.values()):
            _drop(steps.hours, now_ms - KEPT_HOURS_MS)
            _drop(steps.days, now_ms - KEPT_DAYS_MS)
        if changed:
            self.version += 1
        return changed

    def tiers(self) -> list[str]:
        """The names of all tiers."""
        return sorted(self._tiers)

    @property
    def known_places(self) -> Mapping[Place, object]:
        """All topics in all tiers."""
        return self._places

    def places(self, tier: str | None = None, words: str = "") -> Iterator[Place]:
        """The topics of a tier, or of all, in whose names the words are."""
        for place in self._places:
            if (tier is None or place.tier == tier) and words in place.topic:
                yield place

    def of_tier(self, tier: str, step_ms: int, since_ms: int) -> dict[int, Sums]:
        """The sums of a tier by the beginning of each step: of a bucket (0), an hour or a day."""
        steps = self._tiers.get(tier)
        if steps is None:
            return {}
        if step_ms:
            return _since(steps.days if step_ms == DAY_MS else steps.hours, since_ms)
        return _since(self._recent[tier], since_ms)

    def of_place(self, place: Place, step_ms: int, since_ms: int) -> dict[int, Sums]:
        """The sums of a topic in a tier by the beginning of each step."""
        if step_ms:
            steps = self._places.get(place)
            if steps is None:
                return {}
            return _since(steps.days if step_ms == DAY_MS else steps.hours, since_ms)
        found: dict[int, Sums] = {}
        self._add_rows(place, since_ms, found)
        return found

    def total(self, place: Place, step_ms: int, since_ms: int, until_ms: int) -> Sums:
        """The sums of a topic in a tier from a time to another, by hours at the finest."""
        size = step_ms or HOUR_MS
        total = Sums()
        steps = self._places.get(place)
        if steps is not None:
            sums_by = steps.days if size == DAY_MS else steps.hours
            for start_ms in range(since_ms // size * size, until_ms + 1, size):
                sums = sums_by.get(start_ms)
                if sums is not None:
                    total.include(sums)
        return total

    def rows_of(self, place: Place, since_ms: int) -> list[Row]:
        """The recent rows of a topic in a tier, the newest first."""
        buckets = self._of_place.get(place, {})
        return [self.rows[buckets[start]] for start in sorted(buckets, reverse=True) if start >= since_ms]

    def _add_rows(self, place: Place, since_ms: int, found: dict[int, Sums]) -> None:
        for start_ms, key in self._of_place.get(place, {}).items():
            if start_ms >= since_ms:
                found.setdefault(start_ms, Sums()).add(self.rows[key])

    def take(self, row: Row) -> bool:
        """Take over one row; False if it is as before."""
        key = Key(row.tier, row.topic, row.bucket_start_ms)
        old = self.rows.get(key)
        if old == row:
            return False
        self.rows[key] = row
        place = Place(row.tier, row.topic)
        self._of_place.setdefault(place, {})[row.bucket_start_ms] = key
        topic = self._places.setdefault(place, _Steps())
        tier = self._tiers.setdefault(row.tier, _Steps())
        for sums_by, size in (
            (topic.hours, HOUR_MS),
            (topic.days, DAY_MS),
            (tier.hours, HOUR_MS),
            (tier.days, DAY_MS),
            (self._recent.setdefault(row.tier, {}), 1),
        ):
            start_ms = row.bucket_start_ms // size * size
            sums = sums_by.get(start_ms)
            if sums is None:
                sums = sums_by[start_ms] = Sums()
            if old is not None:
                sums.add(old, -1)
            sums.add(row)
        return True


def _drop(sums_by: dict[int, Sums], before_ms: int) -> None:
    # steps are added about in their order: the oldest are in front
    for start_ms in list(sums_by)[:2]:
        if start_ms < before_ms:
            del sums_by[start_ms]


def _since(sums_by: dict[int, Sums], since_ms: int) -> dict[int, Sums]:
    return {start: sums for start, sums in sums_by.items() if start >= since_ms}


def sum_of(all_sums: Iterable[Sums]) -> Sums:
    """All of them together."""
    total = Sums()
    for one in all_sums:
        total.include(one)
    return total
