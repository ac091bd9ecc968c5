"""The logs of connectors: lines of hosts, kept by connector, in memory and perhaps in files.

A host's line begins with `[CONNECTOR|task-0] `, or `[host] `. A file grows to MAX_FILE_BYTES; then it is the
older one of two, and a new one begins.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

log = logging.getLogger("ottla.connect")

KEPT_LINES: Final = 1_000
MAX_CONNECTORS: Final = 1_000
MAX_LINE_CHARACTERS: Final = 16 << 10
MAX_FILE_BYTES: Final = 16 << 20
HOST: Final = "host"
HOST_LOG: Final = ""


class ConnectorLogs:
    """The last lines of each connector, and its file."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lines: dict[str, deque[tuple[int, str]]] = {}
        self._number = 0

    def add(self, line: str) -> None:
        """Keep a line of a host."""
        name, text = _split(line[:MAX_LINE_CHARACTERS])
        if name not in self._lines and len(self._lines) >= MAX_CONNECTORS:
            del self._lines[next(iter(self._lines))]
        self._number += 1
        self._lines.setdefault(name, deque(maxlen=KEPT_LINES)).append((self._number, text))
        log.debug("%s", line)
        if self._directory is not None:
            self._write(name, text)

    def add_of_java(self, connector: str | None, line: str) -> None:
        """Keep a line of the Java worker; its later lines of one message don't name the connector."""
        if connector is None or line.startswith(f"[{connector}|"):
            self.add(line)
        else:
            self.add(f"[{quote(connector)}|java] {line}")

    def last(self, connector: str, count: int) -> tuple[Sequence[str], int]:
        """A connector's last lines, and the number of the last one; HOST_LOG: of the processes themselves."""
        found = list(self._lines.get(connector, ()))[-count:] if count > 0 else []
        return [text for _, text in found], self._number

    def after(self, connector: str, number: int) -> tuple[Sequence[str], int]:
        """The lines behind that of a number, and the number of the last one."""
        found = [text for each, text in self._lines.get(connector, ()) if each > number]
        return found, self._number

    def _write(self, name: str, text: str) -> None:
        assert self._directory is not None
        path = self._directory / f"{quote(name, safe='') or HOST}.log"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > MAX_FILE_BYTES:
                path.replace(path.with_suffix(".log.1"))
            with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text + "\n")
        except OSError as problem:
            log.warning("the log of connectors can't be written to %s: %s", path, problem)


def _split(line: str) -> tuple[str, str]:
    """The connector of a line, and the line without it."""
    if line.startswith("["):
        name, end, text = line[1:].partition("] ")
        connector, separator, task = name.rpartition("|")
        if end and separator:
            return unquote(connector), f"{task}: {text}"
        if end and name == HOST:
            return HOST_LOG, text
    return HOST_LOG, line
