"""Keys of rows as Debezium keeps them in offsets: Java's serialized Object[], as hexadecimal digits; no I/O.

The grammar is the Java Object Serialization Specification's, chapter 6.4. Read are arrays of what key columns
hold: texts, numbers, truth values, BigDecimal and UUID. Nothing is ever made of a class that is named there.
"""

from __future__ import annotations

import enum
import struct
import uuid
from dataclasses import dataclass, field
from decimal import Context
from typing import Any, Final

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 20
_HEADER: Final = b"\xac\xed\x00\x05"
_FIRST_HANDLE: Final = 0x7E0000
_HAS_WRITE_METHOD: Final = 1
_PRIMITIVES: Final = {"B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?"}


class Kind(enum.IntEnum):
    """What an element of the stream is."""

    NULL = 0x70
    REFERENCE = 0x71
    CLASS = 0x72
    OBJECT = 0x73
    STRING = 0x74
    ARRAY = 0x75
    BLOCK = 0x77
    END_BLOCK = 0x78
    LONG_STRING = 0x7C


class BadKey(ValueError):
    """Bytes that are no such key, or hold a class that keys here don't have."""


@dataclass(slots=True)
class _Class:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _Class | None = None


@dataclass(slots=True)
class _Object:
    described: _Class
    values: dict[str, Any] = field(default_factory=dict)


def java_key(text: str) -> tuple[str | None, ...] | None:
    """The texts of a key's values, as a database writes them; None for null. Raises BadKey."""
    if len(text) > 2 * MAX_BYTES:
        raise BadKey(f"a key of more than {MAX_BYTES} bytes")
    try:
        data = bytes.fromhex(text)
        if not data.startswith(_HEADER):
            raise BadKey("a key does not begin as Java's objects do")
        found = _Reader(data, len(_HEADER)).content(0)
    except (ValueError, struct.error, IndexError, UnicodeError) as problem:
        raise BadKey(f"a key is cut short, or none of Java's: {problem}") from None
    if found is None:
        return None
    if not isinstance(found, list):
        raise BadKey("a key is no array")
    return tuple(_text(each) for each in found)


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case _Object(described=_Class(name="java.math.BigDecimal")):
            return _decimal(value)
        case _Object(described=_Class(name="java.util.UUID")):
            bits = (value.values["mostSigBits"] % (1 << 64)) << 64 | value.values["leastSigBits"] % (1 << 64)
            return str(uuid.UUID(int=bits))
        case _Object(values={"value": bool(word)}):
            return "true" if word else "false"
        case _Object(described=described, values={"value": int() | float() as number}):
            if described.name.startswith("java.lang."):
                return str(number)
    name = value.described.name if isinstance(value, _Object) else type(value).__name__
    raise BadKey(f"a key has a value of class {name}")


def _decimal(value: _Object) -> str:
    whole = value.values.get("intVal")
    scale = value.values.get("scale")
    if not isinstance(whole, _Object) or not isinstance(scale, int) or abs(scale) > 20_000:
        raise BadKey("a decimal without its digits")
    magnitude = whole.values.get("magnitude")
    if not isinstance(magnitude, list):
        raise BadKey("a decimal without its digits")
    digits = int.from_bytes(bytes(each % 256 for each in magnitude)) * int(whole.values.get("signum", 1))
    exact = Context(prec=len(magnitude) * 3 + 1)
    return format(exact.scaleb(exact.create_decimal(digits), -scale), "f")


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._handles: list[Any] = []

    def content(self, depth: int) -> Any:
        """The next object."""
        if depth > MAX_DEPTH:
            raise BadKey(f"objects within objects, more than {MAX_DEPTH} deep")
        match self._byte():
            case Kind.NULL:
                return None
            case Kind.REFERENCE:
                return self._referred()
            case Kind.OBJECT:
                return self._object(depth)
            case Kind.STRING:
                return self._known(self._utf(self._number(">H")))
            case Kind.LONG_STRING:
                return self._known(self._utf(self._number(">q")))
            case Kind.ARRAY:
                return self._array(depth)
            case other:
                raise BadKey(f"an element of kind {other:#x}")

    def _array(self, depth: int) -> list[Any]:
        described = self._class(depth)
        if described is None or not described.name.startswith("["):
            raise BadKey("an array without a class")
        found: list[Any] = self._known([])
        count, element = self._number(">i"), described.name[1]
        if not 0 <= count <= len(self._data):
            raise BadKey(f"an array of {count} values")
        found.extend(self._value(element, depth) for _ in range(count))
        return found

    def _object(self, depth: int) -> _Object:
        described = self._class(depth)
        if described is None:
            raise BadKey("an object without a class")
        found: _Object = self._known(_Object(described))
        chain: list[_Class] = []
        each: _Class | None = described
        while each is not None:
            chain.insert(0, each)
            each = each.parent
        for level in chain:
            for code, name in level.fields:
                found.values[name] = self._value(code, depth)
            if level.flags & _HAS_WRITE_METHOD:
                self._skip_annotation(depth)
        return found

    def _class(self, depth: int) -> _Class | None:
        kind = self._byte()
        if kind == Kind.NULL:
            return None
        if kind == Kind.REFERENCE:
            found = self._referred()
            if not isinstance(found, _Class):
                raise BadKey("a reference to no class")
            return found
        if kind != Kind.CLASS or depth > MAX_DEPTH:
            raise BadKey(f"a class of kind {kind:#x}")
        described: _Class = self._known(_Class(self._utf(self._number(">H"))))
        self._take(8)  # serialVersionUID: set behind the handle's number, as the specification has it
        described.flags = self._byte()
        for _ in range(self._number(">H")):
            code, name = chr(self._byte()), self._utf(self._number(">H"))
            if code in "[L":
                self.content(depth + 1)  # the type's name
            described.fields.append((code, name))
        self._skip_annotation(depth)
        described.parent = self._class(depth + 1)
        return described

    def _skip_annotation(self, depth: int) -> None:
        while (kind := self._byte()) != Kind.END_BLOCK:
            if kind == Kind.BLOCK:
                self._take(self._byte())
            else:
                self._at -= 1
                self.content(depth + 1)

    def _value(self, code: str, depth: int) -> Any:
        if code in "[L":
            return self.content(depth + 1)
        if code not in _PRIMITIVES:
            raise BadKey(f"a field of type {code!r}")
        return self._number(_PRIMITIVES[code])

    def _referred(self) -> Any:
        index = self._number(">i") - _FIRST_HANDLE
        if not 0 <= index < len(self._handles):
            raise BadKey("a reference to nothing")
        return self._handles[index]

    def _known(self, value: Any) -> Any:
        self._handles.append(value)
        return value

    def _byte(self) -> int:
        return self._take(1)[0]

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _utf(self, length: int) -> str:
        # Java's modified UTF-8: characters beyond U+FFFF are two surrogates, of three bytes each.
        data = self._take(length).replace(b"\xc0\x80", b"\x00")
        return data.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16")

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._at:
            raise BadKey("a key is cut short")
        found = self._data[self._at : self._at + length]
        self._at += length
        return found
