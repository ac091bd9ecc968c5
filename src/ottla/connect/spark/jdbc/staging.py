"""The work of one task of Spark's: its rows into the stage, in one transaction, under a number of its own.

A task may be begun again after its rows were committed, and two attempts may even run at once. Only the
number that an attempt returns counts: rows of all others are left out of what is taken from the stage.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.connectors.jdbc.address import Address, System
from ottla.connect.connectors.jdbc.moments import UTC

if TYPE_CHECKING:
    import pyarrow as pa

LINE, GONE = "line", "gone"
"""The columns of what a task is given: a row's text (texts.row_text), and whether the record deletes."""
STAGED: Final = "attempt BIGINT, staged BIGINT, deleted BIGINT"
"""The one row that an attempt with rows returns."""
MAX_STATEMENT_BYTES: Final = 1 << 20
_ATTEMPT_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class StageWriter:
    """Where rows go. table: the stage, its name as SQL has it; columns: its columns but for the first."""

    address: Address
    table: str
    columns: tuple[str, ...]

    def write(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of mapInArrow. Raises RetriableError, Refused."""
        import pyarrow as pa
        import pyarrow.compute as pc

        batches = iter(given)
        first = next((each for each in batches if each.num_rows), None)
        if first is None:
            return
        attempt = secrets.randbits(_ATTEMPT_BITS)
        counts = [0, 0]

        def texts() -> Iterator[Any]:
            for each in chain((first,), batches):
                counts[0] += each.num_rows
                counts[1] += pc.sum(each.column(GONE)).as_py() or 0
                yield each.column(LINE)

        if self.address.system is System.POSTGRESQL:
            self._copy(f"{attempt},", texts())
        else:
            self._insert(f"({attempt},", texts())
        arrays = [pa.array([each], pa.int64()) for each in (attempt, *counts)]
        yield pa.RecordBatch.from_arrays(arrays, names=["attempt", "staged", "deleted"])

    def _copy(self, begin: str, texts: Iterator[Any]) -> None:
        from ottla.connect.connectors.jdbc.postgres import PostgresDatabase

        names = ", ".join(("attempt", *self.columns))
        with closing(PostgresDatabase(self.address, UTC)) as database:
            database.copy(
                f"COPY {self.table} ({names}) FROM STDIN (FORMAT csv)",
                (lines(begin, each) for each in texts),
            )

    def _insert(self, begin: str, texts: Iterator[Any]) -> None:
        from ottla.connect.connectors.jdbc.mariadb import MariaDatabase

        names = ", ".join(("attempt", *self.columns))
        head = f"INSERT INTO {self.table} ({names}) VALUES ".encode()
        with closing(MariaDatabase(self.address, UTC)) as database, database.transaction(()):
            for each in texts:
                for part in parts(begin, each, MAX_STATEMENT_BYTES):
                    database.send(head + bytes(part[:-1]))  # without the comma behind its last tuple


def lines(begin: str, texts: Any) -> memoryview:
    """All texts of an array one after another, each with a beginning: one piece of memory, made by Arrow."""
    found, ends = _joined(begin, texts)
    return found[ends[0] : ends[-1]]


def parts(begin: str, texts: Any, limit: int) -> Iterator[memoryview]:
    """The same in parts of at most `limit` bytes, or of one text that is longer."""
    found, ends = _joined(begin, texts)
    start, last = 0, len(ends) - 1
    while start < last:
        end = int(ends.searchsorted(ends[start] + limit, side="right")) - 1
        end = max(end, start + 1)
        yield found[ends[start] : ends[end]]
        start = end


def _joined(begin: str, texts: Any) -> tuple[memoryview, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    made = pc.binary_join_element_wise(pa.scalar(begin), texts, "")
    kind = np.int64 if pa.types.is_large_string(made.type) else np.int32
    _, offsets, data = made.buffers()
    ends = np.frombuffer(offsets, kind)[made.offset : made.offset + len(made) + 1]
    return memoryview(data), ends
