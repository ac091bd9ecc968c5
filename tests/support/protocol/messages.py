"""Every message of ottla.protocol, and values for them made from their own tables."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ottla.protocol.messages
import ottla.protocol.records
from ottla.protocol.schema import Field, Message, Struct, StructMeta

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-1", "grüße", "日本語", "🦦", "x" * 130)
UNKNOWN_TAGS = (77, 128, 300_000)


@functools.cache
def all_messages() -> tuple[type[Message], ...]:
    """Every message class, in the order of the modules' names."""
    found = []
    for package in (ottla.protocol.messages, ottla.protocol.records):
        for module_info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{module_info.name}")
            for value in vars(module).values():
                declared_here = getattr(value, "__module__", "") == module.__name__
                if declared_here and isinstance(value, StructMeta) and issubclass(value, Message):
                    found.append(value)
    return tuple(found)


def all_versions() -> Iterator[tuple[type[Message], int]]:
    """Every (message, version)."""
    for cls in all_messages():
        for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
            yield cls, version


def is_flexible(cls: type[Message], version: int) -> bool:
    return cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes messages of one version. `tame` leaves out what other parsers limit: see `tame_message`."""

    version: int
    flexible: bool
    dice: random.Random
    tame: bool

    def struct(self, cls: Any, depth: int) -> Any:
        values = {}
        for field in cls.FIELDS:
            if field.in_version(self.version) and self.dice.random() < 0.9:
                values[field.name] = self.value(field, depth)
        result = cls(**values)
        if self.flexible and not self.tame and self.dice.random() < 0.3:
            tags = self.dice.sample(UNKNOWN_TAGS, self.dice.randrange(1, 3))
            result.unknown_tagged_fields = {tag: self.bytes(0, 3, 200) for tag in tags}
        return result

    def value(self, field: Field, depth: int) -> Any:
        if field.nullable_in(self.version) and self.dice.random() < 0.25:
            return None
        if not field.array:
            return self.element(field.kind, depth)
        count = self.dice.choice((0, 1, 2, 3) if depth < 2 else (0, 1, 2))
        return [self.element(field.kind, depth + 1) for _ in range(count)]

    def element(self, kind: str | type[Struct], depth: int) -> Any:
        if not isinstance(kind, str):
            return self.struct(kind, depth)
        dice = self.dice
        if kind in INTEGER_BITS:
            if self.tame:
                return dice.randrange(100)
            half = 1 << (INTEGER_BITS[kind] - 1)
            return dice.choice((0, 1, -1, half - 1, -half, dice.randrange(-half, half)))
        match kind:
            case "uint16":
                return dice.choice((0, 65535, dice.randrange(65536)))
            case "uint32":
                return dice.choice((0, 0xFFFFFFFF, dice.randrange(1 << 32)))
            case "float64":
                return dice.choice((0.0, -0.5, 1e300, float("inf")))
            case "bool":
                return dice.random() < 0.5
            case "uuid":
                return dice.choice((uuid.UUID(int=0), uuid.UUID(bytes=dice.randbytes(16))))
            case "string":
                return dice.choice(TEXTS)
            case _:
                return self.bytes(0, 1, 20, 130)

    def bytes(self, *sizes: int) -> bytes:
        return self.dice.randbytes(self.dice.choice(sizes))


def random_message(cls: type[Message], version: int, dice: random.Random) -> Any:
    """A message whose fields of this version have random values, nulls and unknown tags among them."""
    return Maker(version, is_flexible(cls, version), dice, tame=False).struct(cls, 0)


def tame_message(cls: type[Message], version: int, dice: random.Random) -> Any:
    """As `random_message`, with small numbers (error codes and times that exist) and no unknown tags."""
    return Maker(version, is_flexible(cls, version), dice, tame=True).struct(cls, 0)


def lone_fields(cls: type[Message]) -> Iterator[tuple[int, Message, str]]:
    """For each field of a message, nested ones too: (version, a message in which only it is set, its name).

    The version is the newest that has the field.
    """
    for version in range(cls.MAX_VERSION, cls.MIN_VERSION - 1, -1):
        for path, value in _lone(
            cls, version, cls.MAX_VERSION if version == cls.MAX_VERSION else version + 1
        ):
            yield version, value, path


def _lone(cls: Any, version: int, newer: int) -> Iterator[tuple[str, Any]]:
    """Fields that are in `version` and, unless it is the newest, not in the version after it."""
    for field in cls.FIELDS:
        if not field.in_version(version):
            continue
        if isinstance(field.kind, StructMeta):
            for path, inner in _lone(field.kind, version, newer):
                yield f"{field.name}.{path}", cls(**{field.name: [inner] if field.array else inner})
        if newer != version and field.in_version(newer):
            continue
        for value in _set_values(field, version):
            yield field.name, cls(**{field.name: value})


def _set_values(field: Field, version: int) -> Iterator[Any]:
    """Values other than a field's default."""
    if field.nullable_in(version):
        if field.default is not None:
            yield None
        elif field.array:
            yield []
    if isinstance(field.kind, StructMeta):
        filled = field.kind()
        yield [filled] if field.array else filled
        return
    plain: dict[str, Any] = {
        "bool": field.default is not True,
        "float64": 1.5,
        "uuid": uuid.UUID(int=5),
        "string": "set",
        "bytes": b"set",
        "records": b"set",
    }
    value = plain.get(field.kind, 1 if field.default != 1 else 2)
    yield [value] if field.array else value
