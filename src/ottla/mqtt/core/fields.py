"""The data types of MQTT's packets: numbers, texts and lengths, read with bounds and written.

A text is UTF-8 without surrogates and without the null character; a byte order mark at its begin is a
character as any other. What can't be read is `Malformed`, whatever the bytes are.
"""

from __future__ import annotations

from typing import Final

from ottla.mqtt.core.reason_codes import ReasonCode

LARGEST_LENGTH: Final = 268_435_455
"""The largest variable byte integer: four bytes of seven bits."""
LONGEST_FIELD: Final = 0xFFFF
"""Bytes of a text or of binary data."""


class Malformed(ValueError):
    """Bytes that are no packet, or a packet that the protocol rules out. reason: what the sender is told."""

    def __init__(self, text: str, reason: ReasonCode = ReasonCode.MALFORMED_PACKET) -> None:
        super().__init__(text)
        self.text = text
        self.reason = reason


class Fields:
    """Reads the fields of one packet from front to end. Each method raises Malformed."""

    __slots__ = ("_data", "_end", "_place")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0
        self._end = len(data)

    @property
    def left(self) -> int:
        """The number of bytes that are not read yet."""
        return self._end - self._place

    def byte(self) -> int:
        """A number of one byte."""
        place = self._place
        if place >= self._end:
            raise Malformed("the packet ends within a field")
        self._place = place + 1
        return self._data[place]

    def flag(self) -> int:
        """A byte that is 0 or 1."""
        value = self.byte()
        if value > 1:
            raise Malformed(f"a flag is {value}, neither 0 nor 1", ReasonCode.PROTOCOL_ERROR)
        return value

    def two(self) -> int:
        """A number of two bytes."""
        place = self._place
        if place + 2 > self._end:
            raise Malformed("the packet ends within a field")
        self._place = place + 2
        return self._data[place] << 8 | self._data[place + 1]

    def four(self) -> int:
        """A number of four bytes."""
        return int.from_bytes(self.take(4), "big")

    def length(self) -> int:
        """A variable byte integer, in the fewest bytes."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 21:
                raise Malformed("a variable byte integer has more than four bytes")
        if shift and not byte:
            raise Malformed("a variable byte integer has more bytes than it needs")
        return value

    def take(self, count: int) -> bytes:
        """So many bytes."""
        place = self._place
        if place + count > self._end:
            raise Malformed("the packet ends within a field")
        self._place = place + count
        return self._data[place : place + count]

    def binary(self) -> bytes:
        """Binary data behind its length."""
        return self.take(self.two())

    def text(self) -> str:
        """A text behind its length."""
        try:
            found = self.take(self.two()).decode()
        except UnicodeDecodeError:
            raise Malformed("a text is not UTF-8") from None
        if "\0" in found:
            raise Malformed("a text has the null character")
        return found

    def pair(self) -> tuple[str, str]:
        """A name and a value."""
        return self.text(), self.text()

    def within(self, count: int) -> Fields:
        """The next bytes, as fields of their own."""
        return Fields(self.take(count))

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(self.left)

    def require_end(self) -> None:
        """Raises Malformed if anything is left."""
        if self.left:
            raise Malformed(f"the packet has {self.left} bytes behind its end")


def two_bytes(value: int) -> bytes:
    """A number of two bytes."""
    return value.to_bytes(2, "big")


def four_bytes(value: int) -> bytes:
    """A number of four bytes."""
    return value.to_bytes(4, "big")


def length_bytes(value: int) -> bytes:
    """A variable byte integer."""
    if value < 0x80:
        return bytes((value,))
    if value > LARGEST_LENGTH:
        raise ValueError(f"{value} is more than a variable byte integer takes")
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def binary_bytes(value: bytes) -> bytes:
    """Binary data behind its length."""
    if len(value) > LONGEST_FIELD:
        raise ValueError(f"a field of {len(value)} bytes: {LONGEST_FIELD} is the most")
    return len(value).to_bytes(2, "big") + value


def text_bytes(value: str) -> bytes:
    """A text behind its length."""
    if "\0" in value:
        raise ValueError("a text with the null character")
    return binary_bytes(value.encode())
