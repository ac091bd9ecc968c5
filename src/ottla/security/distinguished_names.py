"""A certificate's subject as Java's X500Principal prints it: RFC 2253, the last part first.

Principals and mapping rules are made of this text, so it has to be Java's to the letter: types outside of RFC
2253 are numbers with their value in hexadecimal (an e-mail address is `1.2.840.113549.1.9.1=#1612…`), the
others are text in which `,=+<>#;"\\` and spaces at the ends are escaped.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_NAME_BYTES: Final = 64 * 1024

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_TRIMMED: Final = " \r"

_OBJECT_IDENTIFIER: Final = 0x06
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
#: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_STRINGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))


class MalformedName(ValueError):
    """The bytes are not the DER of a name."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def rfc2253_name(der: bytes) -> str:
    """The text of a name (RFC 5280's Name) in DER. Raises MalformedName."""
    if len(der) > MAX_NAME_BYTES:
        raise MalformedName(f"a name of {len(der)} bytes, allowed are {MAX_NAME_BYTES}")
    outer, rest = _element(der)
    if rest:
        raise MalformedName("bytes follow the name")
    parts = [_relative_name(each) for each in _elements(outer, _SEQUENCE)]
    return ",".join(reversed(parts))


def _relative_name(element: _Element) -> str:
    return "+".join(_type_and_value(each) for each in _elements(element, _SET))


def _type_and_value(element: _Element) -> str:
    inside = _elements(element, _SEQUENCE)
    if len(inside) != 2 or inside[0].tag != _OBJECT_IDENTIFIER:
        raise MalformedName("a part of the name is not a type and a value")
    number = _object_identifier(inside[0].content)
    keyword, value = _KEYWORDS.get(number), inside[1]
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.whole.hex()}"
    # Java reads every kind of string as UTF-8, those of two bytes a character too.
    return f"{keyword}={_escape(value.content.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    without_head = escaped.lstrip(_TRIMMED)
    head = escaped[: len(escaped) - len(without_head)]
    middle = without_head.rstrip(_TRIMMED)
    tail = without_head[len(middle) :]
    return "".join(f"\\{each}" for each in head) + middle + "".join(f"\\{each}" for each in tail)


def _elements(element: _Element, tag: int) -> list[_Element]:
    if element.tag != tag:
        raise MalformedName(f"tag {element.tag:#x} where {tag:#x} is expected")
    found, rest = [], element.content
    while rest:
        inner, rest = _element(rest)
        found.append(inner)
    return found


def _element(data: bytes) -> tuple[_Element, bytes]:
    """The first element, and the bytes behind it."""
    if len(data) < 2:
        raise MalformedName("the name is cut off")
    length, start = data[1], 2
    if length >= 0x80:
        start += length & 0x7F
        if not 0x81 <= length <= 0x84 or len(data) < start:
            raise MalformedName("the name has a length that can't be read")
        length = int.from_bytes(data[2:start], "big")
    end = start + length
    if len(data) < end:
        raise MalformedName("the name is cut off")
    return _Element(data[0], data[start:end], data[:end]), data[end:]


def _object_identifier(content: bytes) -> str:
    if not content or content[-1] & 0x80:
        raise MalformedName("an object identifier is cut off")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
