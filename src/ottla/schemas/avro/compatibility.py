"""Avro's schema resolution: why data written with one schema can't be read with another.

The rules, their order and their places are those of Java's SchemaCompatibility, whose messages the registry's
clients see. Places are paths into the reader's JSON. Inside a union's branch they begin at the branch,
because Java reports only that no branch fits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    NamedType,
    Record,
    Union,
)
from ottla.schemas.effort import Effort, TooMuchWork
from ottla.schemas.format import Incompatibility

MAX_FINDINGS: Final = 500
"""A type is reported in every place that uses it; without a bound, findings could double with every level."""
PART_STEPS: Final = 3
"""The steps for comparing a type, a field or a symbol. Unions of thousands of records multiply."""
FINDINGS_OF_A_STEP: Final = 4
"""The number of findings that a pair takes over from others in the time of a step. Bounds the memory too."""
PROMOTIONS: Final = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}
"""The writer's types that each primitive type can read, besides its own."""

_SENTENCES: Final[dict[str, Callable[[str, str], str]]] = {
    "NAME_MISMATCH": lambda place, about: f"The name of the schema has changed (path '{place}')",
    "FIXED_SIZE_MISMATCH": lambda place, about: (
        f"The size of FIXED type field at path '{place}' in the new schema does not match with the old schema"
    ),
    "MISSING_ENUM_SYMBOLS": lambda place, about: (
        f"The new schema is missing enum symbols '{about}' at path '{place}' in the old schema"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": lambda place, about: (
        f"The field '{about}' at path '{place}' in the new schema has no default value and is missing in the "
        "old schema"
    ),
    "TYPE_MISMATCH": lambda place, about: (
        f"The type (path '{place}') of a field in the new schema does not match with the old schema"
    ),
    "MISSING_UNION_BRANCH": lambda place, about: (
        f"The new schema is missing a type inside a union field at path '{place}' in the old schema"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An incompatibility as Java reports it: its kind, the path in the reader's schema, and a message."""

    type: str
    location: str
    message: str

    def as_incompatibility(self) -> Incompatibility:
        """The finding in Confluent's words, where the reader is the new schema and the writer the old one."""
        return Incompatibility(self.type, _SENTENCES[self.type](self.location, self.message), self.message)


class NotComparable(Exception):
    """It can't be decided whether one schema reads the other; the message says why."""


def compare(reader: AvroType, writer: AvroType, effort: Effort | None = None) -> list[Finding]:
    """Reasons in Java's order, at most MAX_FINDINGS; none if all data of `writer` can be read with `reader`.

    Raises NotComparable for a reader's field that matches several of the writer's, and for schemas that take
    more than a whole effort. With a smaller effort, TooMuchWork is raised instead; Abandoned in either case.
    """
    effort = effort or Effort()
    try:
        return _compare(reader, writer, effort)
    except TooMuchWork:
        if not effort.is_whole:
            raise
        raise NotComparable("the schemas have too many types, fields and symbols to be compared") from None


def _compare(reader: AvroType, writer: AvroType, effort: Effort) -> list[Finding]:
    seen: dict[tuple[int, int], list[Finding]] = {}
    root = _Asked(reader, writer, ())
    under_way = [(root.pair, _decide(root))]
    seen[root.pair] = []
    effort.spend(root.weight)
    answer: list[Finding] | None = None
    # A stack in a list: recursive schemas of many types nest deeper than Python's calls may.
    while under_way:
        pair, deciding = under_way[-1]
        try:
            asked = deciding.send(answer) if answer is not None else next(deciding)
        except StopIteration as decided:
            answer = seen[pair] = decided.value[:MAX_FINDINGS]
            effort.spend(len(answer) // FINDINGS_OF_A_STEP)
            under_way.pop()
            continue
        effort.spend()
        answer = seen.get(asked.pair)
        if answer is None:
            effort.spend(asked.weight)
            # A pair that is being compared counts as compatible until it is proven otherwise.
            seen[asked.pair] = []
            under_way.append((asked.pair, _decide(asked)))
    return seen[root.pair]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A comparison on which another one depends. `path`: from the root to this part of the reader."""

    reader: AvroType
    writer: AvroType
    path: tuple[str, ...]

    @property
    def pair(self) -> tuple[int, int]:
        return id(self.reader), id(self.writer)

    @property
    def weight(self) -> int:
        """The number of steps of this comparison, without those of the comparisons it depends on."""
        return PART_STEPS * (1 + _size(self.reader) + _size(self.writer))


def _size(kind: AvroType) -> int:
    match kind:
        case Record():
            return len(kind.fields)
        case Enum():
            return len(kind.symbols)
    return 0


_Deciding: TypeAlias = Generator[_Asked, list[Finding], list[Finding]]


def _decide(asked: _Asked) -> _Deciding:
    reader, writer, path = asked.reader, asked.writer, asked.path
    match reader, writer:
        case Array(), Array():
            return (yield _Asked(reader.items, writer.items, (*path, "items")))
        case Map(), Map():
            return (yield _Asked(reader.values, writer.values, (*path, "values")))
        case Fixed(), Fixed():
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        case Enum(), Enum():
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        case Record(), Record():
            return _names(reader, writer, path) + (yield from _fields(reader, writer, path))
        case _, Union():
            return (yield from _written_union(reader, writer, path))
        case Union(), _:
            for branch in reader.branches:
                if not (yield _Asked(branch, writer, ())):
                    return []
            return [_lacking(writer, path)]
    if reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
        return []
    message = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return [Finding("TYPE_MISMATCH", _location(path), message)]


def _written_union(reader: AvroType, writer: Union, path: tuple[str, ...]) -> _Deciding:
    """The findings for a writer's union, each of whose branches must be readable."""
    findings: list[Finding] = []
    for index, branch in enumerate(writer.branches):
        if not isinstance(reader, Union):
            findings += yield _Asked(reader, branch, (*path, str(index)))
        elif (yield _Asked(reader, branch, ())):
            findings.append(_lacking(branch, (*path, str(index))))
    return findings


def _fields(reader: Record, writer: Record, path: tuple[str, ...]) -> _Deciding:
    by_name = {field.name: field for field in writer.fields}
    findings: list[Finding] = []
    for index, field in enumerate(reader.fields):
        place = (*path, "fields", str(index))
        written = _written_field(field, by_name, writer)
        if written is not None:
            findings += yield _Asked(field.type, written.type, (*place, "type"))
        elif field.has_default:
            continue
        elif isinstance(field.type, Enum) and field.type.default is not None:
            # Java compares the enum with the whole record here, which is a mismatch too.
            findings += yield _Asked(field.type, writer, (*place, "type"))
        else:
            findings.append(Finding("READER_FIELD_MISSING_DEFAULT_VALUE", _location(place), field.name))
    return findings


def _written_field(field: Field, by_name: dict[str, Field], writer: Record) -> Field | None:
    names = [name for name in (field.name, *field.aliases) if name in by_name]
    if len(names) > 1:
        raise NotComparable(
            f"the field {field.name} and its aliases name several fields of {writer.full_name}: "
            + ", ".join(names)
        )
    return by_name[names[0]] if names else None


def _names(reader: NamedType, writer: NamedType, path: tuple[str, ...]) -> list[Finding]:
    """The finding if two names differ; they match without namespaces, or by a full alias of the reader."""
    if reader.name.name == writer.name.name:
        return []
    if any(_full_alias(alias, reader.name) == writer.full_name for alias in reader.aliases):
        return []
    return [Finding("NAME_MISMATCH", _location((*path, "name")), f"expected: {writer.full_name}")]


def _full_alias(alias: Name, name: Name) -> str:
    return f".{alias.name}" if not alias.namespace and name.namespace else alias.full


def _sizes(reader: Fixed, writer: Fixed, path: tuple[str, ...]) -> list[Finding]:
    if reader.size == writer.size:
        return []
    message = f"expected: {writer.size}, found: {reader.size}"
    return [Finding("FIXED_SIZE_MISMATCH", _location((*path, "size")), message)]


def _symbols(reader: Enum, writer: Enum, path: tuple[str, ...]) -> list[Finding]:
    missing = set(writer.symbols).difference(reader.symbols)
    if not missing or reader.default is not None:
        return []
    message = f"[{', '.join(sorted(missing))}]"
    return [Finding("MISSING_ENUM_SYMBOLS", _location((*path, "symbols")), message)]


def _lacking(writer: AvroType, path: tuple[str, ...]) -> Finding:
    message = f"reader union lacking writer type: {writer.kind.upper()}"
    return Finding("MISSING_UNION_BRANCH", _location(path), message)


def _location(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)
