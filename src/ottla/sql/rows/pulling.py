"""Pull queries: what a table's view, or a stream's topic, has now."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.rows.bounds import Bounds, KeyRange, bounds_of, given_key
from ottla.sql.rows.codecs import BadRecord, Row, RowCodec
from ottla.sql.rows.figures import Reads
from ottla.sql.rows.hub import readable
from ottla.sql.rows.messages import record_of
from ottla.sql.rows.port import OutRow
from ottla.sql.rows.selecting import Selection, given_cells
from ottla.sql.rows.shapes import with_constants
from ottla.sql.rows.views import TableView
from ottla.sql.types.sql_types import Base
from ottla.streams.views.view_store import Row as StoredRow
from ottla.streams.views.view_store import Snapshot

PAGE_ROWS: Final = 1_000
log = logging.getLogger("ottla.sql")

MAX_WINDOWS: Final = 1_000_000
SCAN: Final = "ksql.query.pull.table.scan.enabled"


@dataclass(slots=True)
class PullPlan:
    """A pull query, ready to be asked: made once for a statement."""

    query: QueryPlan
    selection: Selection
    bounds: Bounds
    given: dict[str, Any] = field(default_factory=dict)
    """Cells of each row: the question's constants."""
    key: Mapping[str, int] | None = None
    """Of a shape: which constant each key column is, where its filter says just that."""

    def asked(self, constants: tuple[Any, ...]) -> PullPlan:
        """The plan of a shape (shapes.py) for a question's constants."""
        where, given = self.query.where, given_cells(constants)
        if self.key is not None:
            bounds = Bounds(({name: constants[number] for name, number in self.key.items()},))
        elif constants and where is not None:
            bounds = bounds_of(with_constants(where, constants), self.query.source.source)
        else:
            bounds = self.bounds
        return PullPlan(self.query, self.selection, bounds, given)

    @classmethod
    def of(cls, query: QueryPlan, functions: Functions) -> PullPlan:
        """The plan of a bound query."""
        source = query.source.source
        bounds, key = bounds_of(query.where, source), given_key(query.where, source)
        return cls(query, Selection(query, functions), bounds, key=key)

    @property
    def reads(self) -> Reads:
        """What it reads."""
        if not self.query.source.source.is_table:
            return Reads.STREAM
        if self.bounds.keys is not None:
            return Reads.KEY
        return Reads.TABLE if self.bounds.between is None else Reads.RANGE

    def require_allowed(self, properties: Mapping[str, str]) -> None:
        """Raises SqlError for a scan where the properties allow none."""
        scans = self.bounds.keys is None and self.reads is not Reads.RANGE
        if scans and properties.get(SCAN, "true").lower() == "false":
            raise SqlError(
                f"this reads the whole of {self.query.source.source.name}",
                None,
                f"give its key, or set '{SCAN}'='true'",
            )

    def looked_up(self, view: TableView) -> tuple[list[OutRow], Mapping[int, int]]:
        """The rows of the keys that the filter names, and the offsets as of which they are."""
        assert self.bounds.keys is not None
        found: list[OutRow] = []
        if len(self.bounds.keys) == 1 and view.source.windowed is None and self.query.limit != 0:
            data = view.codec.key_bytes(self.bounds.keys[0])
            if data is not None:
                row, offsets = view.store.get_placed(data)
                return [] if row is None else list(self._selected(view.codec, row)), offsets
        with view.store.snapshot() as snapshot:
            for key in self.bounds.keys:
                data = view.codec.key_bytes(key)
                if data is None:
                    continue
                if view.source.windowed is None:
                    one = snapshot.get(data)
                    rows = [] if one is None else [one]
                else:
                    rows = snapshot.windows(data, self.bounds.from_ms, self.bounds.to_ms, MAX_WINDOWS)
                for each in rows:
                    found += self._selected(view.codec, each)
            positions = snapshot.positions()
        return found if self.query.limit is None else found[: self.query.limit], positions

    def scan(self, view: TableView) -> tuple[Generator[Sequence[OutRow], None, None], Mapping[int, int]]:
        """All rows that the filter lets through, in pages, of one moment; the offsets of that moment.

        Reads the keys that the filter leaves, or the whole table. Blocks, and so do the pages. They hold a
        snapshot until they are at their end, or closed.
        """
        stack = ExitStack()
        snapshot = stack.enter_context(view.store.snapshot(lasting=True))
        try:
            positions = snapshot.positions()
        except BaseException:
            stack.close()
            raise
        return self._pages(view, snapshot, stack), positions

    def _pages(
        self, view: TableView, snapshot: Snapshot, stack: ExitStack
    ) -> Generator[Sequence[OutRow], None, None]:
        left = self.query.limit
        low, high = self.bounds.from_ms, self.bounds.to_ms
        windowed = view.source.windowed is not None
        pages = (
            page
            for first, last in _stretches(view.codec, self.bounds.between)
            for page in snapshot.pages(PAGE_ROWS, first, last)
        )
        with stack:
            for page in pages:
                found: list[OutRow] = []
                for each in page:
                    if not windowed or low <= each.key.start_ms <= high:
                        found += self._selected(view.codec, each)
                if left is not None:
                    found = found[:left]
                    left -= len(found)
                if found:
                    yield found
                if left == 0:
                    return

    def _selected(self, codec: RowCodec, stored: StoredRow) -> Iterable[OutRow]:
        row = _row(codec, stored)
        return () if row is None else self.selection.rows(row | self.given if self.given else row)

    def streamed(
        self, codec: RowCodec, access: ClusterAccess, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> Generator[Sequence[OutRow], None, None]:
        """A stream's rows between two places, in pages. Blocks. Raises ClusterError."""
        left = self.query.limit
        found: list[OutRow] = []
        for message in read(access, codec.source.topic, begin, end):
            row = readable(codec, record_of(message))
            if row is None:
                continue
            found += self.selection.rows(row | self.given)
            if left is not None and len(found) >= left:
                yield found[:left]
                return
            if len(found) >= PAGE_ROWS:
                left = None if left is None else left - len(found)
                yield found
                found = []
        if found:
            yield found


def _stretches(codec: RowCodec, between: KeyRange | None) -> list[tuple[bytes | None, bytes | None]]:
    """Where keys are in the order of their bytes, in which negative numbers come behind the others."""
    if between is None:
        return [(None, None)]
    (column,) = codec.source.keys

    def data(value: Any) -> bytes | None:
        return None if value is None else codec.key_bytes({column.name: value})

    if column.type.base is Base.STRING:
        return [(data(between.low), data(between.high))]
    bits = 31 if column.type.base is Base.INTEGER else 63
    low = max(-(1 << bits), -(1 << bits) if between.low is None else between.low)
    high = min((1 << bits) - 1, (1 << bits) - 1 if between.high is None else between.high)
    parts = [(max(low, 0), high), (low, min(high, -1))]
    return [(data(first), data(last)) for first, last in parts if first <= last]


def _row(codec: RowCodec, stored: StoredRow) -> Row | None:
    """A stored row; None for bytes that are no row of the table, which its columns may have changed to."""
    key = stored.key
    data = key.key if isinstance(key.key, bytes) else bytes(str(key.key), "utf-8")
    try:
        row = codec.stored_row(data, stored.value, stored.timestamp_ms)
    except BadRecord as problem:
        log.debug("%s", problem)
        return None
    if codec.source.windowed is not None:
        row["WINDOWSTART"], row["WINDOWEND"] = key.start_ms, key.end_ms
    return row


def ends_of(cluster: KafkaCluster, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Where a topic begins and ends now. Raises NoSuchTopic, ClusterError."""
    return cluster.start_positions(topic), cluster.end_positions(topic)
