"""A host's log on stderr: every line begins with the connector and task that it is about, for the worker.

`[my-sink|task-0] 2026-01-02 03:04:05,678 INFO …`; `[my-sink|worker]` is the connector itself and `[host]` the
process. Characters of a connector's name that would end the brackets are written in percent, as in URLs.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import Final

from ottla.connect.host.messages import Run

HOST: Final = "host"
_ENDING: Final = re.compile(r"[\x00-\x1f\x7f%|\]\u0085\u2028\u2029]")
_FORMAT: Final = "%(asctime)s %(levelname)s %(message)s (%(name)s)"

_here = threading.local()


def log_name(run: Run) -> str:
    """The name of a run in front of its lines."""
    connector = _ENDING.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), run.connector
    )
    return f"{connector}|{'worker' if run.task < 0 else f'task-{run.task}'}"


def name_thread(name: str) -> None:
    """From now on what this thread logs begins with this name."""
    _here.name = name


class HostFormatter(logging.Formatter):
    """Puts the thread's name in front of every line, those of a traceback too.

    A record may carry the name itself (`extra={"run_name": …}`): libraries log in threads of their own.
    """

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """The lines of a record."""
        name = getattr(record, "run_name", None) or getattr(_here, "name", HOST)
        return "\n".join(f"[{name}] {line}" for line in super().format(record).splitlines())


def log_to_stderr(level: str) -> None:
    """Send the log of this process to stderr. Raises ValueError for an unknown level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HostFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
