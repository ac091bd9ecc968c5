"""A progress bar on stderr, on a terminal, for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from ottla.cli.frame.terminal import has_colours, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

SILENT_SECONDS: Final = 1.0
"""A command that has ended by then shows no bar."""


class Progress:
    """A bar that appears after SILENT_SECONDS, at the first progress after them, and goes at the end.

    total: the number that is complete; None if it is not known. unit: of the counted things, `records` say.
    """

    def __init__(
        self, description: str, total: int | None = None, unit: str = "", *, shown: bool = True
    ) -> None:
        self._description = description
        self._total = total
        self._unit = unit
        self._shown = shown and is_terminal(sys.stderr)
        self._done = 0
        self._appears = time.monotonic() + SILENT_SECONDS
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1) -> None:
        """Count further things as done."""
        self.update(self._done + count)

    def update(self, done: int, total: int | None = None) -> None:
        """Set the number of things that are done, and their total if it is known now."""
        self._done = done
        self._total = self._total if total is None else total
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() < self._appears:
                return
            self._bar, self._task = self._started()
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=self._total)

    def _started(self) -> tuple[Bar, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True, no_color=not has_colours(sys.stderr))
        bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(self._unit, markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        task = bar.add_task(self._description, total=self._total)
        bar.start()
        return bar, task
