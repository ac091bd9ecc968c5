"""Parses an Avro schema's JSON into types, by the rules of Java's Schema.Parser (1.12).

As in Java, a name may be used before its type is defined: such places are filled in when all is read.
Attributes that Java ignores are ignored (an order, a `doc` that is not a string, a logical type that does not
fit).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast

from ottla.schemas.avro.json_text import write_json
from ottla.schemas.avro.model import (
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    NamedType,
    Primitive,
    Properties,
    Record,
    Union,
)
from ottla.schemas.format import InvalidSchema

MAX_FIXED_BYTES: Final = (1 << 31) - 9
MAX_TYPES: Final = 100_000
_ORDERS: Final = ("ascending", "descending", "ignore")
_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED: Final = _RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_JAVA_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_SHOWN_CHARS: Final = 120


class _Unresolved:
    """The place of a name that is used before its definition."""

    kind = "unresolved"

    def __init__(self, full_name: str, place: str) -> None:
        self.full_name = full_name
        self.place = place


class Parser:
    """Parses texts that share names: first the referenced texts, then the text that refers to them."""

    def __init__(self) -> None:
        self._known: dict[str, NamedType] = {}
        self._new: dict[str, NamedType] = {}
        self._unresolved = False
        self._types = 0

    @property
    def known_names(self) -> frozenset[str]:
        """The full names of all types that have been parsed."""
        return frozenset(self._known)

    def parse(self, node: Any) -> AvroType:
        """The type of a JSON value. Raises InvalidSchema."""
        self._unresolved = False
        parsed = self._type(node, "", "/")
        new, self._new = self._new, {}
        self._known.update(new)
        if self._unresolved:
            done: set[int] = set()
            for named in new.values():
                self._fill(named, "/", done)
            parsed = self._fill(parsed, "/", done)
        return parsed

    def _type(self, node: Any, namespace: str, place: str) -> AvroType:
        self._types += 1
        if self._types > MAX_TYPES:
            raise InvalidSchema(f"the schema has more than {MAX_TYPES} types")
        match node:
            case str():
                return self._find(node, namespace, place)
            case list():
                branches = (
                    self._type(branch, namespace, _below(place, index)) for index, branch in enumerate(node)
                )
                return _union(tuple(branches), place)
            case dict():
                return self._object(node, namespace, place)
            case _:
                raise InvalidSchema(f"{_shown(node)} is no schema (at {place})")

    def _object(self, node: dict[str, Any], namespace: str, place: str) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            _refuse(f"no type: {_shown(node)}", place)
        match kind:
            case "record" | "error":
                return self._record(node, namespace, place, is_error=kind == "error")
            case "enum":
                return self._enum(node, namespace, place)
            case "fixed":
                return self._fixed(node, namespace, place)
            case "array":
                if "items" not in node:
                    _refuse(f"an array without items: {_shown(node)}", place)
                items = self._type(node["items"], namespace, _below(place, "items"))
                return Array(items, _properties(node, _RESERVED))
            case "map":
                if "values" not in node:
                    _refuse(f"a map without values: {_shown(node)}", place)
                values = self._type(node["values"], namespace, _below(place, "values"))
                return Map(values, _properties(node, _RESERVED))
        if kind in PRIMITIVES:
            return Primitive(kind, _properties(node, _RESERVED))
        return self._find(kind, namespace, place)

    def _find(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name, {})
        full = f"{namespace}.{name}" if namespace and "." not in name else name
        found = self._named(full) or self._named(name)
        if found is not None:
            return found
        self._unresolved = True
        return cast(AvroType, _Unresolved(full, place))

    def _named(self, full_name: str) -> NamedType | None:
        return self._known.get(full_name) or self._new.get(full_name)

    def _define(self, defined: NamedType, place: str) -> None:
        other = self._named(defined.full_name)
        if other is None:
            self._new[defined.full_name] = defined
        elif not _same_leaf(other, defined):
            _refuse(f"{defined.full_name} is defined twice", place)

    def _record(self, node: dict[str, Any], namespace: str, place: str, *, is_error: bool) -> Record:
        name = _name(node, namespace, place)
        record = Record(name, _text(node, "doc"), is_error)
        self._define(record, place)
        fields = node.get("fields")
        if not isinstance(fields, list):
            _refuse(f"the record {name.full} has no fields", place)
        seen: set[str] = set()
        for index, field in enumerate(fields):
            parsed = self._field(field, name.namespace, _below(_below(place, "fields"), index))
            if parsed.name in seen:
                _refuse(f"the record {name.full} has the field {parsed.name} twice", place)
            seen.add(parsed.name)
            record.fields.append(parsed)
        record.properties = _properties(node, _RESERVED)
        record.aliases = _type_aliases(node, name, place)
        return record

    def _field(self, node: Any, namespace: str, place: str) -> Field:
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str):
            _refuse(f"a field without a name: {_shown(node)}", place)
        if "type" not in node:
            _refuse(f"the field {_shown(name)} has no type", place)
        kind = self._type(node["type"], namespace, _below(place, "type"))
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            _refuse(f"the order of the field {name} must be one of {', '.join(_ORDERS)}", place)
        default = node.get("default")
        if isinstance(default, str) and kind.kind in ("float", "double"):
            default = _double(default, name, place)
        return Field(
            name=check_name(name, place),
            type=kind,
            doc=_text(node, "doc"),
            has_default="default" in node,
            default=default,
            order=order.lower(),
            aliases=_aliases(node, place),
            properties=_properties(node, _FIELD_RESERVED),
        )

    def _enum(self, node: dict[str, Any], namespace: str, place: str) -> Enum:
        name = _name(node, namespace, place)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            _refuse(f"the enum {name.full} has no symbols", place)
        for symbol in symbols:
            if not isinstance(symbol, str):
                _refuse(f"the enum {name.full} has a symbol that is no string: {_shown(symbol)}", place)
            check_name(symbol, place)
        if len(set(symbols)) != len(symbols):
            ((twice, _),) = Counter(symbols).most_common(1)
            _refuse(f"the enum {name.full} has the symbol {twice} twice", place)
        default = _text(node, "default")
        if default is not None and default not in symbols:
            _refuse(f"the default {_shown(default)} of the enum {name.full} is none of its symbols", place)
        enum = Enum(
            name=name,
            doc=_text(node, "doc"),
            symbols=tuple(symbols),
            default=default,
            aliases=_type_aliases(node, name, place),
            properties=_properties(node, _ENUM_RESERVED),
        )
        self._define(enum, place)
        return enum

    def _fixed(self, node: dict[str, Any], namespace: str, place: str) -> Fixed:
        name = _name(node, namespace, place)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_FIXED_BYTES:
            _refuse(f"the size of {name.full} must be a number of bytes up to {MAX_FIXED_BYTES}", place)
        fixed = Fixed(
            name=name,
            doc=_text(node, "doc"),
            size=size,
            aliases=_type_aliases(node, name, place),
            properties=_properties(node, _RESERVED),
        )
        self._define(fixed, place)
        return fixed

    # -- names that were used before their definition --------------------------------------------

    def _fill(self, kind: AvroType, place: str, done: set[int]) -> AvroType:
        """`kind` with all names in it resolved; changed in place if possible."""
        if isinstance(kind, _Unresolved):
            found = self._known.get(kind.full_name)
            if found is None:
                _refuse(f"{_shown(kind.full_name)} is no known type", kind.place)
            return found
        if id(kind) in done:
            return kind
        done.add(id(kind))
        match kind:
            case Array():
                kind.items = self._fill(kind.items, _below(place, "items"), done)
            case Map():
                kind.values = self._fill(kind.values, _below(place, "values"), done)
            case Union():
                filled = (
                    self._fill(branch, _below(place, index), done)
                    for index, branch in enumerate(kind.branches)
                )
                kind.branches = _union(tuple(filled), place).branches
            case Record():
                for index, field in enumerate(kind.fields):
                    below = _below(_below(_below(place, "fields"), index), "type")
                    field.type = self._fill(field.type, below, done)
        return kind


def check_name(name: str, place: str) -> str:
    """Check a simple name: letters of any script, digits, underscores, as in Java. Raises InvalidSchema."""
    if not name:
        _refuse("an empty name", place)
    first, rest = name[0], name[1:]
    if not _is_letter(first) or not all(_is_letter(c) or (c.isdecimal() and c < "\U00010000") for c in rest):
        _refuse(f"{_shown(name)} is no name: letters, digits and underscores, no digit first", place)
    return name


def _is_letter(character: str) -> bool:
    return character == "_" or (character.isalpha() and character < "\U00010000")


def _name(node: Mapping[str, Any], enclosing: str, place: str) -> Name:
    name = node.get("name")
    if not isinstance(name, str):
        _refuse(f"a {node['type']} without a name", place)
    namespace = _text(node, "namespace")
    namespace, dot, simple = _split(name, enclosing if namespace is None else namespace)
    check_name(simple, place)
    if namespace or dot:
        for part in namespace.split(".") if namespace else ():
            check_name(part, place)
    found = Name(simple, namespace)
    if found.full in PRIMITIVES:
        _refuse(f"a {node['type']} may not have the name of a primitive type, {found.full}", place)
    return found


def _split(name: str, namespace: str) -> tuple[str, str, str]:
    before, dot, simple = name.rpartition(".")
    return (before if dot else namespace), dot, simple


def _type_aliases(node: Mapping[str, Any], name: Name, place: str) -> tuple[Name, ...]:
    found: dict[Name, None] = {}
    for alias in _aliases(node, place):
        namespace, _, simple = _split(alias, name.namespace)
        found[Name(check_name(simple, place), namespace)] = None
    return tuple(found)


def _aliases(node: Mapping[str, Any], place: str) -> tuple[str, ...]:
    aliases = node.get("aliases", [])
    if not isinstance(aliases, list):
        _refuse(f"aliases must be an array, not {_shown(aliases)}", place)
    for alias in aliases:
        if not isinstance(alias, str):
            _refuse(f"an alias must be a string, not {_shown(alias)}", place)
    return tuple(dict.fromkeys(aliases))


def _union(branches: tuple[AvroType, ...], place: str) -> Union:
    seen: set[str] = set()
    for branch in branches:
        if branch.kind == "union":
            _refuse("a union may not be a branch of a union", place)
        if branch.full_name in seen:
            _refuse(f"the union has {branch.full_name} twice", place)
        seen.add(branch.full_name)
    return Union(branches)


def _same_leaf(one: NamedType, other: NamedType) -> bool:
    """Whether two definitions of an enum or a fixed type count as the same in Java, and may both be given."""
    match one, other:
        case Enum(), Enum():
            return one.symbols == other.symbols and not one.properties
        case Fixed(), Fixed():
            return one.size == other.size and not one.properties
    return False


def _properties(node: Mapping[str, Any], reserved: frozenset[str]) -> Properties:
    return {name: value for name, value in node.items() if name not in reserved}


def _text(node: Mapping[str, Any], name: str) -> str | None:
    value = node.get(name)
    return value if isinstance(value, str) else None


def _double(text: str, field: str, place: str) -> float:
    found = text.strip()
    if _JAVA_DOUBLE.fullmatch(found) is None:
        _refuse(f"the default {_shown(text)} of the field {field} is no number", place)
    return float(found if found[-1] in "Ny" else found.rstrip("fFdD"))


def _below(place: str, step: str | int) -> str:
    return f"{place}{step}" if place.endswith("/") else f"{place}/{step}"


def _shown(value: Any) -> str:
    text = write_json(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _refuse(reason: str, place: str) -> NoReturn:
    raise InvalidSchema(f"{reason} (at {place})")
