"""Log lines of a service, bounded: one line an event while events are rare, one a second and kind in floods.

Theory of operation. A cluster that is away makes its clients' libraries log each attempt to connect, and a
client of the service can cause an error as often as it likes: neither may fill a disk. The first warning of a
kind is written at once; those that follow within the second are counted, and told in one line at its end with
the latest of them as an example. A kind is a logger's name and a message's text before its arguments are put
in, which is a fixed text of the program. All lines of the Kafka clients' libraries are of one kind, as they
tell of one event in many ways. Lines below a warning are not bounded: a user asks for those.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Final

WINDOW_SECONDS: Final = 1.0
KINDS: Final = 256
"""The most kinds of a running second that are told apart; those of further texts are one kind."""
KAFKA_CLIENTS: Final = ("ottla.client", "aiokafka")
"""Loggers of the libraries that connect to a cluster: those below them are of the same kind."""

LIBRDKAFKA: Final = "%s [%s] %s"
"""The text of every line that confluent-kafka logs for librdkafka, by whichever logger it was given."""

_OTHERS: Final = "others"
_CLIENTS: Final = "Kafka clients"


class BoundedHandler(logging.Handler):
    """Gives records to `inner`, and warnings of a flood not one by one. Any thread may log."""

    def __init__(self, inner: logging.Handler) -> None:
        super().__init__()
        self._inner = inner
        # For each kind of the running second: how many were not written, and the latest of them.
        self._held_back: dict[str, tuple[int, logging.LogRecord | None]] = {}

    @property
    def counting(self) -> bool:
        """Whether the second of some kind has not ended yet."""
        return bool(self._held_back)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it. `logging` calls it with this handler's lock held."""
        if record.levelno < logging.WARNING:
            self._inner.handle(record)
            return
        kind = self._kind(record)
        held_back = self._held_back.get(kind)
        if held_back is not None:
            self._held_back[kind] = (held_back[0] + 1, record)
            return
        self._inner.handle(record)
        self._begin(kind)

    def flush(self) -> None:
        """Write the lines of seconds that have not ended; `logging` asks for that at the process's end."""
        with self._locked():
            for kind in list(self._held_back):
                self._tell(kind)
                self._held_back[kind] = (0, None)
        self._inner.flush()

    def _kind(self, record: logging.LogRecord) -> str:
        if record.msg == LIBRDKAFKA or any(
            record.name == name or record.name.startswith(f"{name}.") for name in KAFKA_CLIENTS
        ):
            return _CLIENTS
        kind = f"{record.name}: {record.msg}"
        return kind if kind in self._held_back or len(self._held_back) < KINDS else _OTHERS

    def _begin(self, kind: str) -> None:
        """Open a second for this kind; it ends with the others', so one thread is enough."""
        if not self._held_back:
            self._watch()
        self._held_back[kind] = (0, None)

    def _watch(self) -> None:
        end = threading.Timer(WINDOW_SECONDS, self._end_second)
        end.daemon = True
        end.start()

    def _end_second(self) -> None:
        with self._locked():
            flooding = [kind for kind in list(self._held_back) if self._tell(kind)]
            self._held_back = dict.fromkeys(flooding, (0, None))
            if flooding:
                self._watch()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _tell(self, kind: str) -> bool:
        """Whether some of the kind's records were held back: a line tells of them."""
        count, latest = self._held_back[kind]
        if latest is None:
            return False
        told = logging.makeLogRecord(latest.__dict__)
        told.msg = f"{count} more within a second, the latest: {latest.getMessage()}"
        told.args = told.exc_info = told.exc_text = None
        self._inner.handle(told)
        return True
