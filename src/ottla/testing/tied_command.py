"""Runs an `ottla` command that ends with the process that started it, whatever ends that: `FILE COMMAND…`.

A thread reads stdin. A line `stop`, or the end of the pipe, is as SIGTERM to the command; a command that has
not ended ORPHAN_SECONDS after the end of the pipe is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

ORPHAN_SECONDS: Final = 20.0


def follow_stdin() -> None:
    """Ask this process to stop when the other end of stdin says so, or is gone."""
    line = sys.stdin.buffer.readline()
    os.kill(os.getpid(), signal.SIGTERM)
    while line:
        line = sys.stdin.buffer.readline()
    time.sleep(ORPHAN_SECONDS)
    os._exit(1)


def main() -> int:
    """Run the command; its exit code."""
    threading.Thread(target=follow_stdin, name="parent", daemon=True).start()
    from ottla.cli.main import main as ottla

    return ottla(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
