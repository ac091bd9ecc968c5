"""A thread that repeats its work beside an application's queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

STOP_TIMEOUT_SECONDS: Final = 30.0

log = logging.getLogger("ottla.streams")


class Repeated:
    """Calls `work` every so many seconds, the first time after as many.

    An error of `work` ends the thread and is given to `failed`, for the owner to end the application.
    """

    def __init__(
        self, name: str, seconds: float, work: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._seconds = seconds
        self._work = work
        self._failed = failed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Do it no more, and wait for the thread to end. Safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._seconds):
                self._work()
        except BaseException as error:
            if not self._stopping.is_set():
                log.exception("%s: the thread has ended", self._thread.name)
                self._failed(error)
