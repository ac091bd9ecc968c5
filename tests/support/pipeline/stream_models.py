"""The outputs that native operators must give, in plain Python: over batches of (key, value, time), the naive
way.

Nothing here is clever: all records are kept, all pairs are tried. `Batches` are the records that Spark reads
at a time; behind the last of them Spark runs one more without records where the watermark has moved, and so
do the models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.windows import HoppingWindows, JoinWindows, SessionWindows, TumblingWindows


@dataclass(frozen=True, slots=True)
class Fact:
    """A record; `heartbeat`: it only moves event time."""

    key: str | None
    value: int | None
    time: int
    heartbeat: bool = False


Batches = Sequence[Sequence[Fact]]


@dataclass(frozen=True, slots=True)
class Times:
    """The watermarks of one batch: windows that end by `late` are late, by `closed` are closed."""

    late: int
    closed: int


def times(largest: Iterable[int | None], delay: int) -> list[Times]:
    """The watermarks of each batch, and of the one behind them, by each batch's largest event time."""
    late = closed = 0
    found = []
    for time in largest:
        found.append(Times(late, closed))
        late, closed = closed, closed if time is None else max(closed, time - delay)
    return [*found, Times(late, closed)]


def largest_times(batches: Batches) -> list[int | None]:
    return [max((fact.time for fact in batch), default=None) for batch in batches]


@dataclass(slots=True)
class Window:
    """One key's window, or its session from the first to the last record."""

    key: str
    start: int
    end: int
    values: list[int] = field(default_factory=list)
    last: int = 0

    def row(self) -> tuple[object, ...]:
        return self.key, self.start, self.end, len(self.values), sum(self.values), max(self.values), self.last


@dataclass(frozen=True, slots=True)
class Aggregated:
    """The rows that each batch sends on, and the number of late rows that it drops: groups, not records."""

    rows: list[set[tuple[object, ...]]]
    dropped: list[int]


def by_key(batches: Batches) -> list[set[tuple[object, ...]]]:
    """Without windows: after each batch the keys that it changed."""
    kept: dict[str, Window] = {}
    rows = []
    for batch in batches:
        changed = set()
        for fact in batch:
            if fact.key is None or fact.value is None:
                continue
            found = kept.setdefault(fact.key, Window(fact.key, 0, 0))
            found.values.append(fact.value)
            found.last = max(found.last, fact.time)
            changed.add(fact.key)
        rows.append({(row[0], *row[3:]) for row in (kept[key].row() for key in changed)})
    return rows


def windowed(batches: Batches, windows: TumblingWindows | HoppingWindows, *, final: bool) -> Aggregated:
    """Tumbling and hopping windows: those that a batch changed, or (`final`) those that it closed."""
    size = windows.size_ms
    advance = windows.advance_ms if isinstance(windows, HoppingWindows) else size
    kept: dict[tuple[str, int], Window] = {}
    rows, dropped = [], []
    clock = times(largest_times(_keyed(batches)), windows.grace_ms)
    for batch, now in zip([*batches, []], clock, strict=True):
        changed, late = set(), set()
        for fact in batch:
            if fact.key is None or fact.value is None:
                continue
            for start in range(0, fact.time + 1, advance):
                if not start <= fact.time < start + size:
                    continue
                if start + size <= now.late:
                    late.add((fact.key, start))
                    continue
                window = kept.setdefault((fact.key, start), Window(fact.key, start, start + size))
                window.values.append(fact.value)
                window.last = max(window.last, fact.time)
                changed.add((fact.key, start))
        closed = {place for place, window in kept.items() if window.end <= now.closed}
        rows.append({kept[place].row() for place in (closed if final else changed)})
        dropped.append(len(late))
        for place in closed:
            del kept[place]
    return Aggregated(rows, dropped)


def sessions(batches: Batches, windows: SessionWindows) -> Aggregated:
    """The sessions that each batch closed."""
    gap = windows.gap_ms
    kept: list[Window] = []
    rows, dropped = [], []
    # A session is closed when event time is past its end + gap + grace, not at it.
    clock = times(largest_times(_keyed(batches)), windows.grace_ms + 1)
    for batch, now in zip([*batches, []], clock, strict=True):
        late = set()
        for fact in batch:
            if fact.key is None or fact.value is None:
                continue
            if fact.time + gap <= now.late:
                late.add((fact.key, fact.time))
                continue
            kept.append(Window(fact.key, fact.time, fact.time, [fact.value], fact.time))
        kept = _merged(kept, gap)
        rows.append({session.row() for session in kept if session.end + gap <= now.closed})
        dropped.append(len(late))
        kept = [session for session in kept if session.end + gap > now.closed]
    return Aggregated(rows, dropped)


def _merged(given: list[Window], gap: int) -> list[Window]:
    merged: list[Window] = []
    for session in sorted(given, key=lambda each: (each.key, each.start)):
        if merged and merged[-1].key == session.key and session.start - merged[-1].end <= gap:
            into = merged[-1]
            into.end = max(into.end, session.end)
            into.values += session.values
            into.last = max(into.last, session.last)
        else:
            merged.append(session)
    return merged


def _keyed(batches: Batches) -> list[list[Fact]]:
    """The records that move event time: those without a key or a value do not, in Kafka Streams neither."""
    return [
        [fact for fact in batch if fact.heartbeat or None not in (fact.key, fact.value)] for batch in batches
    ]


Pair = tuple[str | None, int | None, int | None, int]
"""Key, left value, right value, time."""


@dataclass(frozen=True, slots=True)
class Joined:
    """`pairs`: by batch. `alone`: records without a partner, over all batches. `dropped`: rows, by batch."""

    pairs: list[Counter[Pair]]
    alone: Counter[Pair]
    dropped: list[int]


def stream_join(lefts: Batches, rights: Batches, windows: JoinWindows, kind: JoinKind) -> Joined:
    """Pairs, and records that stay alone. Open ones are missing at the end: end with a far heartbeat."""
    keeps_left, keeps_right = kind is not JoinKind.INNER, kind is JoinKind.OUTER
    left_facts = [list(_valued(batch, null_keys=keeps_left)) for batch in lefts]
    right_facts = [list(_valued(batch, null_keys=keeps_right)) for batch in rights]
    clock = _slower_side(left_facts, right_facts, windows.before_ms + windows.after_ms + windows.grace_ms)
    left_kept: list[Fact] = []
    right_kept: list[Fact] = []
    met: set[int] = set()
    pairs, dropped = [], []
    for left_batch, right_batch, now in zip([*left_facts, []], [*right_facts, []], clock, strict=True):
        new_left, new_right, late = [], [], 0
        for batch, new in ((left_batch, new_left), (right_batch, new_right)):
            for fact in batch:
                if fact.heartbeat:
                    continue
                if fact.time <= now.late:
                    late += 1
                else:
                    new.append(fact)
        found: Counter[Pair] = Counter()
        for left, right in [*product(new_left, right_kept + new_right), *product(left_kept, new_right)]:
            if left.key is not None and left.key == right.key and _near(left, right, windows):
                found[left.key, left.value, right.value, max(left.time, right.time)] += 1
                met |= {id(left), id(right)}
        left_kept += new_left
        right_kept += new_right
        pairs.append(found)
        dropped.append(late)
    end = clock[-1].closed
    alone: Counter[Pair] = Counter()
    if keeps_left:
        for fact in left_kept:
            if id(fact) not in met and fact.time + windows.after_ms < end:
                alone[fact.key, fact.value, None, fact.time] += 1
    if keeps_right:
        for fact in right_kept:
            if id(fact) not in met and fact.time + windows.before_ms < end:
                alone[fact.key, None, fact.value, fact.time] += 1
    return Joined(pairs, alone, dropped)


def _near(left: Fact, right: Fact, windows: JoinWindows) -> bool:
    return left.time - windows.before_ms <= right.time <= left.time + windows.after_ms


def _valued(batch: Iterable[Fact], *, null_keys: bool) -> Iterator[Fact]:
    for fact in batch:
        if fact.heartbeat or (fact.value is not None and (null_keys or fact.key is not None)):
            yield fact


def _slower_side(lefts: Batches, rights: Batches, delay: int) -> list[Times]:
    """A side's own largest time never falls; the watermark is that of the smaller one."""
    late = closed = 0
    largest = [0, 0]
    found = []
    for batches in zip(lefts, rights, strict=True):
        found.append(Times(late, closed))
        for side, batch in enumerate(batches):
            largest[side] = max([largest[side], *(fact.time for fact in batch)])
        late, closed = closed, max(closed, min(largest) - delay)
    return [*found, Times(late, closed)]
