"""A server's log: one structured line an event, on stderr. Needs nothing of click."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable


def log_to_stderr(level: str, bounded: Callable[[logging.Handler], logging.Handler] | None = None) -> None:
    """Log to stderr, one structured line an event; `bounded` may put a bound before the lines."""
    lines: logging.Handler = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes a line for each request
    logging.basicConfig(level=level.upper(), handlers=[lines if bounded is None else bounded(lines)])
