"""The state of one bucket of keys, in pages: an operator's memory in Python, read in few round trips.

Spark's state is asked over a socket, some 0.1 ms a call, so nothing is stored by single key. A bucket has one
map of bytes to bytes:

| id | holds |
|---|---|
| `m` | the directory: stamp, number of pages, bytes in them, entries of each store, the timers' leaves |
| `k` + number | a page of keys: key -> {store -> {sub-key -> value}} |
| `t` + number | a leaf of timers, sorted by time |

Pages of keys grow by linear hashing: when they hold more than PAGE_BYTES on average, one is split in two. So
a page stays small however many keys there are, and no directory of pages is needed. Timers are the leaves
of a tree of two levels, whose upper one is in the directory.

A batch reads each page that it needs once and writes each that it changed once, at its end. The pages stay in
the worker's memory for the next batch (up to CACHE_BYTES a process). Whether they are still true tells the
stamp, random bytes that each write renews: only the process that wrote the state last finds its own stamp.
After a failed batch, a batch that ran elsewhere, or a restart the stamps differ, and the pages are read anew.
"""

from __future__ import annotations

import bisect
import datetime
import decimal
import io
import os
import pickle
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.streams.operators.operator import TimerKind, Value

STATE_VERSION = 1
PAGE_BYTES = 4096
CACHE_BYTES = int(os.environ.get("OTTLA_STATE_CACHE_BYTES", 32 * 2**20))
"""Of pickled pages, in one worker; as objects they take some five times that. No bucket gets over half."""
LEAF_TIMERS = 1024

_DIRECTORY = b"m"
_VERSION = bytes([STATE_VERSION])
_CLASSES = frozenset(
    {
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        uuid.UUID,
        set,
        frozenset,
        bytearray,
        complex,
    }
)
_BY_NAME = {(each.__module__, each.__qualname__): each for each in _CLASSES}

SubKey = int | str | bytes
Record = dict[int, Any]
"""One key's state: store -> {sub-key -> value}, and under HASH the key's hash."""
HASH = -1
Timer = tuple[int, str, int]
"""At (ms), key, the key's hash."""


class StateError(Exception):
    """The state can't be read, or a value may not be stored."""


class PageStorage(Protocol):
    """Where pages are: Spark's map state of the bucket, or a dictionary in tests."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """The pages. They exist; only the directory may be missing, and is empty then."""
        ...

    def write(self, pages: Sequence[tuple[bytes, bytes]]) -> None: ...

    def remove(self, ids: Sequence[bytes]) -> None: ...


@dataclass(slots=True)
class _Page:
    records: dict[str, Record]
    size_bytes: int = 0
    dirty: bool = False


@dataclass(slots=True)
class _Leaf:
    timers: set[Timer]
    dirty: bool = False
    stored: bool = True


@dataclass(slots=True)
class _Directory:
    """The content of page `m`, in the order of its fields: a plain record, as it is stored."""

    stamp: bytes = b""
    page_count: int = 0
    size_bytes: int = 0
    entries: dict[int, int] = field(default_factory=dict)
    leaves: dict[int, list[tuple[tuple[int, str], int]]] = field(default_factory=lambda: {0: [], 1: []})
    """By kind of timer: (lower bound of a leaf's timers, its number), in order."""
    next_leaf: int = 0
    alarm_ms: int | None = None
    """The one timer that Spark has for this bucket."""


_KINDS = {TimerKind.EVENT_TIME: 0, TimerKind.PROCESSING_TIME: 1}


class _Cache:
    """Pages of buckets that this process wrote last, by their stamps; the oldest go first."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[bytes, tuple[dict[int, _Page], dict[int, _Leaf], int]] = OrderedDict()
        self._size_bytes = 0

    def take(self, stamp: bytes) -> tuple[dict[int, _Page], dict[int, _Leaf]]:
        pages, leaves, size_bytes = self._buckets.pop(stamp, ({}, {}, 0))
        self._size_bytes -= size_bytes
        return pages, leaves

    def keep(self, stamp: bytes, pages: dict[int, _Page], leaves: dict[int, _Leaf]) -> None:
        size_bytes = sum(50 * len(leaf.timers) for leaf in leaves.values())
        size_bytes += sum(page.size_bytes for page in pages.values())
        while size_bytes > CACHE_BYTES // 2 and pages:
            size_bytes -= pages.pop(next(iter(pages))).size_bytes
        self._buckets[stamp] = (pages, leaves, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > CACHE_BYTES:
            _, (_, _, freed_bytes) = self._buckets.popitem(last=False)
            self._size_bytes -= freed_bytes


CACHE = _Cache()


class BucketState:
    """The state of one bucket during one batch. Call `flush` at its end, or nothing has happened."""

    def __init__(self, storage: PageStorage, cache: _Cache = CACHE) -> None:
        self._storage = storage
        self._cache = cache
        (directory,) = storage.read([_DIRECTORY])
        self._directory = _Directory()
        if directory:
            (
                self._directory.stamp,
                self._directory.page_count,
                self._directory.size_bytes,
                self._directory.entries,
                self._directory.leaves,
                self._directory.next_leaf,
                self._directory.alarm_ms,
            ) = _loads(directory)
        self._pages, self._leaves = cache.take(self._directory.stamp)
        if self._directory.page_count == 0:
            self._directory.page_count = 1
            self._pages[0] = _Page({}, 0, dirty=True)
        self._changed = not directory
        self._page = self._pages.get(0, _Page({}))
        self._key = ""
        self._hash = 0
        self._record: Record | None = None

    # -- keys ---------------------------------------------------------------------------------------------

    def prefetch(self, hashes: Iterable[int]) -> None:
        """Read the pages of these keys, those that are not at hand yet, at once."""
        count = self._directory.page_count
        missing = sorted({_page_of(each, count) for each in hashes} - self._pages.keys())
        for number, page in zip(
            missing, self._storage.read([_page_id(each) for each in missing]), strict=True
        ):
            self._pages[number] = _Page(_loads(page), len(page))

    def select(self, key: str, key_hash: int) -> None:
        """Make this the current key."""
        number = _page_of(key_hash, self._directory.page_count)
        if number not in self._pages:
            self.prefetch([key_hash])
        self._page = self._pages[number]
        self._key, self._hash = key, key_hash
        self._record = self._page.records.get(key)

    def get(self, store: int, sub_key: SubKey) -> Value | None:
        if self._record is None:
            return None
        entries = self._record.get(store)
        return None if entries is None else entries.get(sub_key)

    def put(self, store: int, sub_key: SubKey, value: Value) -> None:
        if self._record is None:
            self._record = self._page.records[self._key] = {HASH: self._hash}
        entries = self._record.get(store)
        if entries is None:
            entries = self._record[store] = {}
        if sub_key not in entries:
            self._directory.entries[store] = self._directory.entries.get(store, 0) + 1
        entries[sub_key] = value
        self._page.dirty = True

    def delete(self, store: int, sub_key: SubKey) -> None:
        if self._record is None or sub_key not in (entries := self._record.get(store, {})):
            return
        del entries[sub_key]
        self._directory.entries[store] -= 1
        if not entries:
            del self._record[store]
            if len(self._record) == 1:
                del self._page.records[self._key]
                self._record = None
        self._page.dirty = True

    def entries(self, store: int) -> list[tuple[SubKey, Value]]:
        entries = None if self._record is None else self._record.get(store)
        if not entries:
            return []
        return list(entries.items()) if len(entries) == 1 else sorted(entries.items(), key=_first)

    def size(self, store: int) -> int:
        return self._directory.entries.get(store, 0)

    # -- timers -------------------------------------------------------------------------------------------

    def set_timer(self, kind: TimerKind, at_ms: int) -> None:
        """A timer for the current key."""
        leaf = self._leaf_for(kind, (at_ms, self._key))
        timer = (at_ms, self._key, self._hash)
        if timer not in leaf.timers:
            leaf.timers.add(timer)
            leaf.dirty = True

    def cancel_timer(self, kind: TimerKind, at_ms: int) -> None:
        if self._directory.leaves[_KINDS[kind]]:
            leaf = self._leaf_for(kind, (at_ms, self._key))
            timer = (at_ms, self._key, self._hash)
            if timer in leaf.timers:
                leaf.timers.remove(timer)
                leaf.dirty = True

    def take_due(self, kind: TimerKind, until_ms: int) -> list[Timer]:
        """Remove the timers up to a time, that included, and return them in order."""
        due: list[Timer] = []
        for (lower_ms, _), number in self._directory.leaves[_KINDS[kind]]:
            if lower_ms > until_ms:
                break
            leaf = self._leaf(number)
            now = [timer for timer in leaf.timers if timer[0] <= until_ms]
            if now:
                leaf.timers.difference_update(now)
                leaf.dirty = True
                due.extend(now)
        due.sort()
        return due

    def earliest_ms(self, kind: TimerKind) -> int | None:
        for _, number in self._directory.leaves[_KINDS[kind]]:
            if timers := self._leaf(number).timers:
                return min(timers)[0]
        return None

    @property
    def alarm_ms(self) -> int | None:
        """The timer that Spark has for this bucket."""
        return self._directory.alarm_ms

    @alarm_ms.setter
    def alarm_ms(self, at_ms: int | None) -> None:
        self._changed = self._changed or at_ms != self._directory.alarm_ms
        self._directory.alarm_ms = at_ms

    def _leaf_for(self, kind: TimerKind, at: tuple[int, str]) -> _Leaf:
        leaves = self._directory.leaves[_KINDS[kind]]
        if not leaves:
            leaves.append(((-(2**63), ""), self._directory.next_leaf))
            self._leaves[self._directory.next_leaf] = _Leaf(set(), dirty=True, stored=False)
            self._directory.next_leaf += 1
        position = max(bisect.bisect_right(leaves, at, key=_first) - 1, 0)
        return self._leaf(leaves[position][1])

    def _leaf(self, number: int) -> _Leaf:
        leaf = self._leaves.get(number)
        if leaf is None:
            (stored,) = self._storage.read([_leaf_id(number)])
            leaf = self._leaves[number] = _Leaf(set(_loads(stored)))
        return leaf

    # -- the end ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what changed. Raises StateError for values that may not be stored."""
        directory = self._directory
        writes: dict[bytes, bytes] = {}
        while True:
            for number, page in self._pages.items():
                if page.dirty:
                    content = writes[_page_id(number)] = _dumps(page.records)
                    directory.size_bytes += len(content) - page.size_bytes
                    page.size_bytes, page.dirty = len(content), False
            wanted = -(-directory.size_bytes // PAGE_BYTES)
            if wanted <= directory.page_count:
                break
            while wanted > directory.page_count:
                self._split(min(wanted, 2 * directory.page_count) - directory.page_count)
        removals = self._flush_timers(writes)
        if not writes and not removals and not self._changed:
            self._cache.keep(directory.stamp, self._pages, self._leaves)
            return
        directory.stamp = os.urandom(16)
        writes[_DIRECTORY] = _dumps(
            (
                directory.stamp,
                directory.page_count,
                directory.size_bytes,
                directory.entries,
                directory.leaves,
                directory.next_leaf,
                directory.alarm_ms,
            )
        )
        self._storage.write(list(writes.items()))
        self._storage.remove(removals)
        self._cache.keep(directory.stamp, self._pages, self._leaves)

    def _split(self, times: int) -> None:
        count = self._directory.page_count
        halves = [_split_source(count + each) for each in range(times)]
        missing = sorted(number for number in set(halves) if number < count and number not in self._pages)
        for number, stored in zip(
            missing, self._storage.read([_page_id(each) for each in missing]), strict=True
        ):
            self._pages[number] = _Page(_loads(stored), len(stored))
        for source in halves:
            number = self._directory.page_count
            self._directory.page_count += 1
            page, new = self._pages[source], _Page({}, 0, dirty=True)
            self._pages[number] = new
            page.dirty = True
            for key, record in list(page.records.items()):
                if _page_of(record[HASH], number + 1) == number:
                    new.records[key] = page.records.pop(key)

    def _flush_timers(self, writes: dict[bytes, bytes]) -> list[bytes]:
        removals: list[bytes] = []
        for kind, leaves in self._directory.leaves.items():
            kept: list[tuple[tuple[int, str], int]] = []
            for lower, number in leaves:
                leaf = self._leaves.get(number)
                if leaf is None or not leaf.dirty:
                    kept.append((lower, number))
                    continue
                leaf.dirty = False
                if not leaf.timers:
                    if leaf.stored:
                        removals.append(_leaf_id(number))
                    del self._leaves[number]
                    self._changed = True
                    continue
                timers = sorted(leaf.timers)
                step = len(timers) if len(timers) <= LEAF_TIMERS else LEAF_TIMERS // 2
                for at in range(0, len(timers), step):
                    part = timers[at : at + step]
                    if at:
                        lower, number = (part[0][0], part[0][1]), self._directory.next_leaf
                        self._directory.next_leaf += 1
                    self._leaves[number] = _Leaf(set(part))
                    kept.append((lower, number))
                    writes[_leaf_id(number)] = _dumps(part)
            if kept and kept[0][0] != (lowest := (-(2**63), "")):
                kept[0] = (lowest, kept[0][1])  # a timer before the first leaf belongs to it
            self._directory.leaves[kind] = kept
        return removals


def all_records(storage: PageStorage) -> Iterator[tuple[str, Record]]:
    """Every key of a bucket with its state, for looking into it."""
    (directory,) = storage.read([_DIRECTORY])
    if directory:
        for number in range(_loads(directory)[1]):
            yield from _loads(storage.read([_page_id(number)])[0]).items()


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _page_id(number: int) -> bytes:
    return b"k" + number.to_bytes(4, "big")


def _leaf_id(number: int) -> bytes:
    return b"t" + number.to_bytes(8, "big")


def _page_of(key_hash: int, count: int) -> int:
    """Linear hashing: the page of a key among `count`."""
    key_hash = (key_hash >> 20) & 0xFFFFFFFFFFF  # the lower bits chose the bucket
    half = 1 << (count.bit_length() - 1)
    number = key_hash & (2 * half - 1)
    return number if number < count else number & (half - 1)


def _split_source(new: int) -> int:
    """Whose keys the page number `new` takes half of."""
    return new - (1 << (new.bit_length() - 1))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if type(value) in _CLASSES or (isinstance(value, type) and value in _CLASSES):
            return NotImplemented
        raise StateError(
            f"state holds plain values, not {type(value).__module__}.{type(value).__qualname__}: "
            "use numbers, text, bytes, times, decimals, and lists, tuples, sets and dicts of them"
        )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _BY_NAME.get((module, name))
        if found is None:
            raise StateError(f"state holds a {module}.{name}, which no version of ottla has written")
        return found


def _dumps(value: object) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_VERSION)
    _Pickler(buffer, protocol=5).dump(value)
    return buffer.getvalue()


def _loads(content: bytes) -> Any:
    if content[:1] != _VERSION:
        raise StateError(
            f"state of version {content[0] if content else None}, this ottla reads {STATE_VERSION}"
        )
    buffer = io.BytesIO(content)
    buffer.seek(1)
    return _Unpickler(buffer).load()
