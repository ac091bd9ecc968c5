"""Follows the frames of one direction of a connection, of which only the first bytes matter.

Requests begin with their length, API key, version and correlation id, responses with their length and
correlation id.
"""

from __future__ import annotations

import struct
from typing import Final

REQUEST_HEAD: Final = struct.Struct(">ihhi")
RESPONSE_HEAD: Final = struct.Struct(">ii")


class FrameHeads:
    """The heads of the frames in a stream of bytes that arrives in any pieces."""

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._begun = bytearray()
        self._rest_bytes = 0

    def feed(self, data: bytes) -> list[tuple[int, ...]]:
        """The heads that are complete with this piece: the fields after the length."""
        found = []
        position = 0
        while position < len(data):
            if self._rest_bytes:
                step = min(self._rest_bytes, len(data) - position)
                self._rest_bytes -= step
                position += step
                continue
            missing = self._head.size - len(self._begun)
            piece = data[position : position + missing]
            self._begun += piece
            position += len(piece)
            if len(self._begun) == self._head.size:
                length, *fields = self._head.unpack(self._begun)
                self._begun.clear()
                self._rest_bytes = max(0, length + 4 - self._head.size)
                found.append(tuple(fields))
        return found
