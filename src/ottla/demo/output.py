"""The demo's messages while it starts: steps with their progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.text import Text

from ottla.pipeline.spark.maven import JarProgress

LABEL_WIDTH = 10


class Output:
    """Lines for a person. On a terminal a running step has a spinner and downloads have bars."""

    def __init__(self, file: IO[str]) -> None:
        self.console = Console(file=file, highlight=False, soft_wrap=not file.isatty())

    @property
    def live(self) -> bool:
        """Whether a page that redraws itself can be shown."""
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def line(self, text: str = "") -> None:
        self.console.print(Text(text))

    def fact(self, label: str, text: str) -> None:
        """One labelled line of the start."""
        self.console.print(Text.assemble((f"  {label:<{LABEL_WIDTH}}", "cyan"), text))

    @contextlib.contextmanager
    def step(self, label: str, doing: str) -> Iterator[Callable[[str], None]]:
        """Show a running step until the block ends; the block reports its result through the function."""
        started = time.monotonic()
        results: list[str] = []
        if self.live:
            with self.console.status(Text.assemble((f"{label:<{LABEL_WIDTH - 2}}", "cyan"), doing, " …")):
                yield results.append
        else:
            self.fact(label, f"{doing} …")
            yield results.append
        took = time.monotonic() - started
        self.fact(label, f"{results[-1] if results else doing} ({took:.1f} s)")

    @contextlib.contextmanager
    def downloads(self) -> Iterator[Callable[[JarProgress], None]]:
        """Show the downloads of jars; jars that are on this machine already are not mentioned."""
        if not self.live:
            yield self._plain_download
            return
        columns = (TextColumn("  [cyan]jar[/]       {task.description}"), BarColumn(), DownloadColumn())
        with Progress(*columns, TransferSpeedColumn(), console=self.console) as progress:
            tasks: dict[str, TaskID] = {}

            def show(jar: JarProgress) -> None:
                if jar.cached:
                    return
                name = jar.jar.file_name
                if name not in tasks:
                    tasks[name] = progress.add_task(name, total=None)
                progress.update(tasks[name], completed=jar.received_bytes, total=jar.total_bytes)

            yield show

    def _plain_download(self, jar: JarProgress) -> None:
        if jar.done and not jar.cached:
            self.fact("jar", f"{jar.jar.file_name} fetched, {jar.received_bytes / 1e6:.1f} MB")
