"""Writes bytes to a file descriptor without holding the event loop, and tells when the reader has gone."""

from __future__ import annotations

import os
import stat
from typing import Final

from ottla.cli.records.blocking import BlockingThread

PIECE_BYTES: Final = 1 << 20


class Out:
    """The output of a command, usually stdout. Raises OSError, BrokenPipeError when the reader has gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.written_bytes = 0
        # A pipe or a terminal may block for as long as its reader likes; a file does not.
        self._thread = BlockingThread("output")
        self._may_block = not stat.S_ISREG(os.fstat(descriptor).st_mode)

    async def write(self, data: bytes) -> None:
        """Return when the system has all of the bytes."""
        if not data:
            return
        if self._may_block:
            await self._thread.run(self._write, data)
        else:
            self._write(data)
        self.written_bytes += len(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view[:PIECE_BYTES]) :]
