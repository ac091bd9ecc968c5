"""Shows running queries: a table that stays in place on a terminal, a line for each query elsewhere.

with LiveView(runner):           # a table on a terminal, lines into a file or a pipe
    query.await_termination()
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ottla.pipeline.query.query import QueryState

if TYPE_CHECKING:
    from ottla.pipeline.query.query import PipelineQuery, QueryRunner
    from ottla.pipeline.query.query_progress import QueryProgress

TABLE_SECONDS = 0.5
LINES_SECONDS = 10.0
_STYLES = {QueryState.RUNNING: "green", QueryState.STOPPED: "dim", QueryState.FAILED: "bold red"}


@dataclass(frozen=True, slots=True)
class QueryLine:
    """A query's figures as texts, as they are shown."""

    name: str
    state: QueryState
    rate: str
    lag: str
    batch: str
    watermark: str
    kept: str
    dead_letters: str
    failure: str

    def plain(self) -> str:
        """One line without colour."""
        parts = [f"{self.name}: {self.state.value}"]
        if self.failure:
            return f"{parts[0]}: {self.failure}"
        parts += [f"{self.rate} rows/s", f"lag {self.lag}", f"batch {self.batch}"]
        parts += [f"watermark {self.watermark}"] if self.watermark != "-" else []
        parts += [f"state {self.kept}"] if self.kept != "-" else []
        parts += [f"dead letters {self.dead_letters}"] if self.dead_letters != "0" else []
        return ", ".join(parts)


def query_line(query: PipelineQuery) -> QueryLine:
    """The query's figures now."""
    progress = query.progress
    batches = [seen for seen in query.recent_progress if seen.is_batch]
    last = batches[-1] if batches else None
    failure = "" if query.failure is None else str(query.failure)
    return QueryLine(
        name=query.name,
        state=query.state,
        rate="0" if progress is None else f"{progress.processed_rows_per_second:,.0f}",
        lag="-" if progress is None else f"{progress.lag:,}",
        batch="-" if last is None else f"{last.batch_id} in {last.batch_ms:,} ms",
        watermark=_instant(None if progress is None else progress.watermark_ms),
        kept="-" if last is None else _state_size(last),
        dead_letters=f"{query.dead_letters:,}",
        failure=failure,
    )


def queries_table(lines: list[QueryLine]) -> Table:
    """The lines as a table of the library rich."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("query", "state"):
        table.add_column(title, no_wrap=True)
    for title in ("rows/s", "lag", "last batch", "watermark", "kept", "dead letters"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in lines:
        state = f"[{_STYLES[line.state]}]{line.state.value}[/]"
        cells = (line.rate, line.lag, line.batch, line.watermark, line.kept, line.dead_letters)
        table.add_row(line.name, state, *cells)
    return table


class LiveView:
    """Shows a runner's queries while its block runs."""

    def __init__(
        self,
        runner: QueryRunner,
        console: Console | None = None,
        seconds: float | None = None,
    ) -> None:
        """seconds: between two updates; by default TABLE_SECONDS on a terminal, LINES_SECONDS elsewhere."""
        self._runner = runner
        self._console = console or Console(stderr=True)
        self._seconds = seconds or (TABLE_SECONDS if self._console.is_terminal else LINES_SECONDS)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> LiveView:
        self._thread = threading.Thread(target=self._show, name="ottla-live-view", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False) as live:
                while True:
                    last = self._over.wait(self._seconds)
                    live.update(queries_table(self._lines()), refresh=True)
                    if last:
                        return
        while True:
            last = self._over.wait(self._seconds)
            self.print_changes()
            if last:
                return

    def _lines(self) -> list[QueryLine]:
        return [query_line(query) for query in self._runner.queries]

    def print_changes(self) -> None:
        """Print a plain line for each query whose figures have changed."""
        for line in self._lines():
            text = line.plain()
            if self._shown.get(line.name) != text:
                self._shown[line.name] = text
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _state_size(progress: QueryProgress) -> str:
    """The size of the state: in rows if Spark counts them, else in bytes of its stores."""
    if progress.state_rows is not None:
        return f"{progress.state_rows:,} rows"
    taken = progress.state_disk_bytes + progress.state_memory_bytes
    return f"{taken / 1e6:,.1f} MB" if taken else "-"


def _instant(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
