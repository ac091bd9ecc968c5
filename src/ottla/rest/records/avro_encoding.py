"""Avro's JSON encoding -> its binary encoding, by a function that is made for each schema.

Theory of operation. A schema becomes the source of one Python function for each of its records, which looks
at each JSON value once, checks it and writes its bytes. fastavro reads JSON by a pushdown machine, checks the
datum and then writes it, which takes thirty times as long. A function raises an exception for each value that
it does not take; then the caller has fastavro encode the value, or say what is wrong with it.

A union's value is written under the branch that its JSON names. (fastavro forgets the name once it has read
the value, and writes the first branch that fits: {"double": 1.1} as a float if the union has one before it.)

Logical types are written as the types that they stand on, where fastavro takes and writes each of their
values unchanged; those that it converts (decimals, UUIDs that are not in lower case) are left to it. A field
that is missing is written with its default.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

JsonEncoder = Callable[[Any], bytes]
"""Encodes a JSON value; raises for one that it does not take."""

MAX_NAMES: Final = 5_000
"""The most variables of a schema's functions: some 1,000 types, which Python compiles in 0.2 s. A larger one
is left to fastavro."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DAY: Final = 86_400
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
"""The years 1 to 9999, to which fastavro's dates are bounded."""
_LOGICAL_BOUNDS: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("int", "date"): (_FIRST_SECOND // _DAY, _LAST_SECOND // _DAY),
    ("int", "time-millis"): (0, _DAY * 1_000 - 1),
    ("long", "time-micros"): (0, _DAY * 1_000_000 - 1),
    ("long", "timestamp-millis"): (_FIRST_SECOND * 1_000, _LAST_SECOND * 1_000),
    ("long", "timestamp-micros"): (_FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000),
    ("long", "local-timestamp-millis"): (_FIRST_SECOND * 1_000, _LAST_SECOND * 1_000),
    ("long", "local-timestamp-micros"): (_FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000),
}
"""Of numbers with a logical type: the bounds within which fastavro takes and writes each number unchanged."""
_BOUNDS: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class NotEncoded(Exception):
    """The value is not one that the function takes."""


class NotCompiled(Exception):
    """No function can be made for a schema: it is too large, or nested too deeply for Python."""


def _varints() -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """All numbers of fourteen bits as varints: whole ones, and ones that more bytes follow."""
    whole = tuple(
        bytes((number,)) if number < 128 else bytes((number & 127 | 128, number >> 7))
        for number in range(1 << 14)
    )
    continued = tuple(bytes((number & 127 | 128, number >> 7 | 128)) for number in range(1 << 14))
    return whole, continued


_WHOLE, _CONTINUED = _varints()


def _varint(number: int) -> bytes:
    """A number that is not negative as a varint."""
    if number < 1 << 14:
        return _WHOLE[number]
    return _CONTINUED[number & 16_383] + _varint(number >> 14)


def compiled(schema: Any, converted: frozenset[str], left_out: Callable[[Any], JsonEncoder]) -> JsonEncoder:
    """The function that encodes JSON values of this schema; it raises any exception for one it does not take.

    schema: as fastavro.parse_schema returns it. converted: the logical types that fastavro converts, as
    `int-date`. left_out: makes the encoder of a type that is left to fastavro. Raises NotCompiled.
    """
    compiler = _Compiler(converted, left_out)
    try:
        compiler.define("encode", schema)
        source = "\n".join(compiler.lines)
        exec(compile(source, "<an Avro schema's encoder>", "exec"), compiler.namespace)
    except (SyntaxError, RecursionError, MemoryError, LookupError, TypeError, ValueError) as problem:
        raise NotCompiled(str(problem)) from None
    encode: JsonEncoder = compiler.namespace["encode"]
    return encode


class _Compiler:
    """Writes the source of one function for the root and for each record."""

    def __init__(self, converted: frozenset[str], left_out: Callable[[Any], JsonEncoder]) -> None:
        self._converted = converted
        self._left_out = left_out
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {
            "join": b"".join,
            "whole": _WHOLE,
            "varint": _varint,
            "pack_float": struct.Struct("<f").pack,
            "pack_double": struct.Struct("<d").pack,
            "is_uuid": _UUID.fullmatch,
            "missing": object(),
            "NotEncoded": NotEncoded,
        }
        self._named: dict[str, Any] = {}
        self._functions: dict[str, str] = {}
        self._indexes: dict[str, str] = {}
        self._count = 0

    def define(self, name: str, schema: Any) -> None:
        """Write the function `name` that encodes values of this schema, and those of its records."""
        body = _Body(self)
        parts = body.write(schema, "value")
        self._write_function(name, body, parts)

    def _write_function(self, name: str, body: _Body, parts: list[str]) -> None:
        self.lines += [f"def {name}(value):", *(f"    {line}" for line in body.lines)]
        self.lines.append(f"    return {_joined(parts)}")

    def new_name(self, kind: str) -> str:
        """A name that is not used yet. Raises NotCompiled once there are too many."""
        self._count += 1
        if self._count > MAX_NAMES:
            raise NotCompiled("the schema is too large")
        return f"{kind}{self._count}"

    def constant(self, value: Any) -> str:
        """The name under which the functions find a value."""
        name = self.new_name("constant")
        self.namespace[name] = value
        return name

    def indexes(self, enum: Mapping[str, Any]) -> str:
        """The name of the mapping from an enum's symbols to their bytes, which all references to it share."""
        name: str = enum["name"]
        if name not in self._indexes:
            found = {symbol: _long(index) for index, symbol in enumerate(enum["symbols"])}
            self._indexes[name] = self.constant(found)
        return self._indexes[name]

    def left_to_fastavro(self, schema: Any) -> str:
        """The name of the encoder of a type that is left to fastavro."""
        return self.constant(self._left_out(schema))

    def is_converted(self, kind: str, schema: Mapping[str, Any]) -> bool:
        """Whether fastavro converts values of this type, by its logical type."""
        return f"{kind}-{schema.get('logicalType')}" in self._converted

    def named(self, name: str) -> Any:
        """The named type, which stands before this in the schema."""
        return self._named[name]

    def remember(self, schema: Mapping[str, Any]) -> None:
        """Note a named type for the references to it that follow."""
        self._named[schema["name"]] = schema

    def record(self, schema: Mapping[str, Any]) -> str:
        """The name of the function of a record, which is written at the first use."""
        name: str = schema["name"]
        if name not in self._functions:
            function = self._functions[name] = self.new_name("record")
            body = _Body(self)
            parts = body.write_fields(schema["fields"])
            self._write_function(function, body, parts)
        return self._functions[name]


class _Body:
    """The statements of one function. Its methods return the expressions whose bytes are the value."""

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler
        self.lines: list[str] = []
        self._indent = ""

    def write(self, schema: Any, value: str) -> list[str]:
        """Check and encode the value that the variable `value` has."""
        if isinstance(schema, list):
            return self._union(schema, value)
        if isinstance(schema, str):
            if schema not in _PRIMITIVES:
                return self.write(self._compiler.named(schema), value)
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.write(kind, value)
        if kind in ("record", "error"):
            self._compiler.remember(schema)
            return [f"{self._compiler.record(schema)}({value})"]
        if kind in ("enum", "fixed"):
            self._compiler.remember(schema)
        if self._compiler.is_converted(kind, schema):
            bounds = _LOGICAL_BOUNDS.get((kind, schema["logicalType"]))
            if bounds is not None:
                return self._integer(value, bounds)
            if (kind, schema["logicalType"]) == ("string", "uuid"):
                self._refuse_if(f"is_uuid({value}) is None")
                return self._string(value)
            return [f"{self._compiler.left_to_fastavro(schema)}({value})"]
        match kind:
            case "null":
                self._refuse_if(f"{value} is not None")
                return []
            case "boolean":
                self._refuse_if(f"{value} is not True and {value} is not False")
                return [f'(b"\\1" if {value} else b"\\0")']
            case "int" | "long":
                return self._integer(value, _BOUNDS[kind])
            case "float" | "double":
                self._refuse_if(f"type({value}) is not float and type({value}) is not int")
                return [f"pack_{kind}({value})"]
            case "string":
                return self._string(value)
            case "bytes":
                return self._with_length(f"{value}.encode('latin-1')")
            case "fixed":
                data = self._assign("data", f"{value}.encode('latin-1')")
                self._refuse_if(f"len({data}) != {int(schema['size'])}")
                return [data]
            case "enum":
                return [f"{self._compiler.indexes(schema)}[{value}]"]
            case "array":
                return self._array(schema["items"], value)
            case "map":
                return self._map(schema["values"], value)
        return self.write(self._compiler.named(kind), value)

    def write_fields(self, fields: list[Mapping[str, Any]]) -> list[str]:
        """Encode a record, the function's argument."""
        self._refuse_if("type(value) is not dict")
        parts: list[str] = []
        for field in fields:
            name = repr(field["name"])
            if "default" in field and _is_plain_default(field["default"]):
                value = self._assign("field", f"value.get({name}, missing)")
                default = _default_json(field["type"], field["default"])
                self._line(f"if {value} is missing: {value} = {default!r}")
            else:
                value = self._assign("field", f"value[{name}]")
            parts += self.write(field["type"], value)
        return parts

    def _integer(self, value: str, bounds: tuple[int, int]) -> list[str]:
        low, high = bounds
        self._refuse_if(f"type({value}) is not int or not {low} <= {value} <= {high}")
        number = self._assign("number", f"{value} << 1 ^ {value} >> 63")
        return [f"(whole[{number}] if {number} < 16384 else varint({number}))"]

    def _string(self, value: str) -> list[str]:
        return self._with_length(f"{value}.encode()")

    def _with_length(self, expression: str) -> list[str]:
        data = self._assign("data", expression)
        return [f"(whole[2 * len({data})] if len({data}) < 8192 else varint(2 * len({data})))", data]

    def _union(self, branches: list[Any], value: str) -> list[str]:
        """One branch of the union: null stands bare, any other under its name as the only member."""
        written = self._compiler.new_name("union")
        self._line(f"if {value} is None:")
        labels = [_label(branch) for branch in branches]
        with_null = f"{written} = {_long(labels.index('null'))!r}" if "null" in labels else "raise NotEncoded"
        self._line(f"    {with_null}")
        self._line(f"elif type({value}) is not dict or len({value}) != 1: raise NotEncoded")
        for index, branch in enumerate(branches):
            if labels[index] == "null":
                continue
            self._line(f"elif {labels[index]!r} in {value}:")
            with self._indented():
                inner = self._assign("branch", f"{value}[{labels[index]!r}]")
                parts = [repr(_long(index)), *self.write(branch, inner)]
                self._line(f"{written} = {_joined(parts)}")
        self._line("else: raise NotEncoded")
        return [written]

    def _array(self, items: Any, value: str) -> list[str]:
        self._refuse_if(f"type({value}) is not list")
        item = self._compiler.new_name("item")
        return self._blocks(f"for {item} in {value}:", value, lambda: self.write(items, item))

    def _map(self, values: Any, value: str) -> list[str]:
        self._refuse_if(f"type({value}) is not dict")
        key, item = self._compiler.new_name("key"), self._compiler.new_name("item")
        return self._blocks(
            f"for {key}, {item} in {value}.items():",
            value,
            lambda: [*self._string(key), *self.write(values, item)],
        )

    def _blocks(self, loop: str, value: str, write: Callable[[], list[str]]) -> list[str]:
        """The items of an array or map as one block of Avro's, and the empty block that ends them."""
        written = self._assign("blocks", "[]")
        self._line(f"if {value}: {written}.append(varint(2 * len({value})))")
        self._line(loop)
        with self._indented():
            parts = write()
            self._line(f"{written} += ({', '.join(parts)},)" if parts else "pass")
        return [f"join({written})", repr(b"\0")]

    def _refuse_if(self, condition: str) -> None:
        self._line(f"if {condition}: raise NotEncoded")

    def _assign(self, kind: str, expression: str) -> str:
        name = self._compiler.new_name(kind)
        self._line(f"{name} = {expression}")
        return name

    def _line(self, text: str) -> None:
        self.lines.append(self._indent + text)

    @contextmanager
    def _indented(self) -> Iterator[None]:
        self._indent += "    "
        try:
            yield
        finally:
            self._indent = self._indent[:-4]


def _joined(parts: list[str]) -> str:
    match parts:
        case []:
            return 'b""'
        case [part]:
            return part
    return f"join(({', '.join(parts)}))"


def _long(number: int) -> bytes:
    return _varint(2 * number)


def _label(branch: Any) -> str:
    """The name under which JSON has a value of this branch. Raises NotCompiled for a type without one."""
    label = branch.get("name", branch.get("type")) if isinstance(branch, Mapping) else branch
    if not isinstance(label, str):
        raise NotCompiled("a union's branch has no name")
    return label


def _is_plain_default(default: Any) -> bool:
    """Whether a field's default is a value of its JSON encoding too, or of its union's first branch."""
    return default is None or type(default) in (bool, int, float, str) or default == [] or default == {}


def _default_json(schema: Any, default: Any) -> Any:
    """A plain default in the JSON encoding: that of a union is a value of its first branch."""
    if isinstance(schema, list) and default is not None:
        return {_label(schema[0]): default}
    return default
