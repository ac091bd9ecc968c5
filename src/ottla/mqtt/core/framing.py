"""A stream of bytes to the frames of packets, each no larger than a bound.

The length of a frame is looked at before its body has come, so no more than the bound, and what one read
brings, is ever held of a client.
"""

from __future__ import annotations

from ottla.mqtt.core.fields import Malformed
from ottla.mqtt.core.reason_codes import ReasonCode

Frame = tuple[int, bytes]
"""The first byte of a fixed header, and the body behind its length."""


class Framing:
    """Of one connection. most_bytes: of a whole packet, and may be changed."""

    __slots__ = ("_held", "_place", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._held = bytearray()
        self._place = 0

    def feed(self, data: bytes) -> None:
        """Take what came."""
        if self._place:
            del self._held[: self._place]
            self._place = 0
        self._held += data

    @property
    def held(self) -> int:
        """The bytes that no frame was made of yet."""
        return len(self._held) - self._place

    def rest(self) -> bytes:
        """Give up what is held, for another to read."""
        found = bytes(self._held[self._place :])
        self._held.clear()
        self._place = 0
        return found

    def next(self) -> Frame | None:
        """The next frame, None where it is not complete. Raises Malformed."""
        held, begin = self._held, self._place
        end = len(held)
        length = shift = 0
        place = begin + 1
        while True:
            if place >= end:
                return None
            byte = held[place]
            place += 1
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise Malformed("the length of a packet has more than four bytes")
        if shift and not byte:
            raise Malformed("the length of a packet has more bytes than it needs")
        behind = place + length
        if behind - begin > self.most_bytes:
            raise Malformed(
                f"a packet of {behind - begin} bytes: {self.most_bytes} is the most",
                ReasonCode.PACKET_TOO_LARGE,
            )
        if behind > end:
            return None
        self._place = behind
        return held[begin], bytes(memoryview(held)[place:behind])
