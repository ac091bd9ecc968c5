"""Pull queries: what a table's view, or a stream's topic, has now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.rows.bounds import Bounds, bounds_of
from ottla.sql.rows.codecs import BadRecord, Row, RowCodec
from ottla.sql.rows.hub import readable
from ottla.sql.rows.messages import record_of
from ottla.sql.rows.port import OutRow
from ottla.sql.rows.selecting import Selection
from ottla.sql.rows.views import TableView
from ottla.streams.views.view_codec import TableKey
from ottla.streams.views.view_store import Row as StoredRow

PAGE_ROWS: Final = 1_000
MAX_WINDOWS: Final = 1_000_000
SCAN: Final = "ksql.query.pull.table.scan.enabled"


@dataclass(slots=True)
class PullPlan:
    """A pull query, ready to be asked: made once for a statement."""

    query: QueryPlan
    selection: Selection
    bounds: Bounds

    @classmethod
    def of(cls, query: QueryPlan, functions: Functions) -> PullPlan:
        """The plan of a bound query."""
        source = query.source.source
        return cls(query, Selection(query, functions), bounds_of(query.where, source))

    def require_allowed(self, properties: Mapping[str, str]) -> None:
        """Raises SqlError for a scan where the properties allow none."""
        if self.bounds.keys is None and properties.get(SCAN, "true").lower() == "false":
            raise SqlError(
                f"this reads the whole of {self.query.source.source.name}",
                None,
                f"give its key, or set '{SCAN}'='true'",
            )

    def looked_up(self, view: TableView) -> list[OutRow]:
        """The rows of the keys that the filter names."""
        assert self.bounds.keys is not None
        found: list[OutRow] = []
        for key in self.bounds.keys:
            data = view.codec.key_bytes(key)
            if data is None:
                continue
            if view.source.windowed is None:
                one = view.store.get(data)
                rows = [] if one is None else [one]
            else:
                rows = view.store.windows(data, self.bounds.from_ms, self.bounds.to_ms, MAX_WINDOWS)
            for each in rows:
                found += self.selection.rows(_row(view.codec, each))
        return found if self.query.limit is None else found[: self.query.limit]

    def scanned(self, view: TableView) -> Iterator[Sequence[OutRow]]:
        """All rows that the filter lets through, in pages. Blocks."""
        left = self.query.limit
        after: TableKey | None = None
        while True:
            page = view.store.range(None, None, after, PAGE_ROWS)
            found: list[OutRow] = []
            for each in page:
                if self.bounds.from_ms <= each.key.start_ms <= self.bounds.to_ms or not view.source.windowed:
                    found += self.selection.rows(_row(view.codec, each))
            if left is not None:
                found = found[:left]
                left -= len(found)
            if found:
                yield found
            if len(page) < PAGE_ROWS or left == 0:
                return
            after = page[-1].key

    def streamed(
        self, codec: RowCodec, access: ClusterAccess, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[Sequence[OutRow]]:
        """A stream's rows between two places, in pages. Blocks. Raises ClusterError."""
        left = self.query.limit
        found: list[OutRow] = []
        for message in read(access, codec.source.topic, begin, end):
            row = readable(codec, record_of(message))
            if row is None:
                continue
            found += self.selection.rows(row)
            if left is not None and len(found) >= left:
                yield found[:left]
                return
            if len(found) >= PAGE_ROWS:
                left = None if left is None else left - len(found)
                yield found
                found = []
        if found:
            yield found


def _row(codec: RowCodec, stored: StoredRow) -> Row:
    """A stored row. Raises SqlError for bytes that are no row of the table."""
    key = stored.key
    data = key.key if isinstance(key.key, bytes) else bytes(str(key.key), "utf-8")
    try:
        row = codec.stored_row(data, stored.value, stored.timestamp_ms)
    except BadRecord as problem:
        raise SqlError(str(problem), None) from None
    if codec.source.windowed is not None:
        row["WINDOWSTART"], row["WINDOWEND"] = key.start_ms, key.end_ms
    return row


def ends_of(cluster: KafkaCluster, topic: str) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Where a topic begins and ends now. Raises NoSuchTopic, ClusterError."""
    return cluster.start_positions(topic), cluster.end_positions(topic)
