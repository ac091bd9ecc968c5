"""A server's names for completion, asked for in a thread, so that nobody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ottla.sql.terminal.names import Names
from ottla.sql.terminal.statements import Part, Sort

_CHANGING: Final = frozenset({"CREATE", "DROP", "ALTER", "INSERT", "TERMINATE", "PAUSE", "RESUME"})


def changes_names(part: Part) -> bool:
    """Whether a statement may have changed what can be named."""
    return part.word in _CHANGING or part.sort is Sort.RUN_SCRIPT


class KnownNames:
    """The server's names, as they were when they were last asked for.

    arrived: called, in the thread that asks, when there are new ones.
    """

    def __init__(self, load: Callable[[], Names], arrived: Callable[[], None]) -> None:
        self._load = load
        self._arrived = arrived
        self.names = Names()
        self._lock = threading.Lock()
        self._is_wanted = False
        self._is_asking = False

    def refresh(self) -> None:
        """Ask for the names again, in a thread that ends with the answer."""
        with self._lock:
            self._is_wanted = True
            if self._is_asking:
                return
            self._is_asking = True
        threading.Thread(target=self._ask, name="sql-names", daemon=True).start()

    def _ask(self) -> None:
        while True:
            with self._lock:
                if not self._is_wanted:
                    self._is_asking = False
                    return
                self._is_wanted = False
            try:
                self.names = self._load()
                self._arrived()
            except Exception:  # whatever it is, a line of it would break the line that the user types
                continue
