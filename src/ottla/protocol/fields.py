"""The rows of a message's table, as `schema` takes them from a class body and `codec` compiles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer: TypeAlias = bytes | bytearray | memoryview
Encoder: TypeAlias = "Callable[[Any, Callable[[Buffer], object]], None]"

if TYPE_CHECKING:  # a protocol costs more to make than all the rest of this module

    class Decoder(Protocol):
        """A compiled decoder: the message and the position after it; `budget` bounds its elements."""

        def __call__(self, data: Buffer, pos: int, budget: int = ..., /) -> tuple[Any, int]: ...

    class StructTable(Protocol):
        """A struct class as the compiler sees it."""

        @property
        def FIELDS(self) -> tuple[Field, ...]:
            """The rows of its table, in order."""
            ...

        @property
        def NAME(self) -> str:
            """Its name, for errors."""
            ...

        def shared_default(self) -> object:
            """The one value that stands for "not set" in tagged fields of it."""
            ...

    class MessageTable(StructTable, Protocol):
        """A message class as the compiler sees it."""

        @property
        def KIND(self) -> str:
            """ "request", "response" or "data"."""
            ...

        @property
        def FLEXIBLE_SINCE(self) -> int | None:
            """The first version with tagged fields and compact lengths."""
            ...


NEVER: Final = (1, 0)
"""The empty range of versions."""

_LAST: Final = 0x7FFF


def parse_versions(text: str) -> tuple[int, int]:
    """ "3+", "0-2", "4" or "none" as (first, last), both included."""
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return int(text[:-1]), _LAST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


class Required:
    """The default of an array or struct that is not null: a fresh value for each message."""


FRESH: Final = Required()


class Field:
    """One row of a message's table. `kind` is a wire type's name, or a struct class."""

    __slots__ = (
        "array",
        "default",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: str | StructTable,
        array: bool,
        versions: str,
        nullable: str,
        tag: int,
        tagged: str,
        default: Any,
        ignorable: bool,
        flexible: bool,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.array = array
        self.versions = versions
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.default = default
        self.ignorable = ignorable
        self.flexible = flexible

    def in_version(self, version: int) -> bool:
        first, last = parse_versions(self.versions)
        return first <= version <= last

    def nullable_in(self, version: int) -> bool:
        first, last = parse_versions(self.nullable)
        return first <= version <= last

    def tagged_in(self, version: int) -> bool:
        first, last = parse_versions(self.tagged)
        return first <= version <= last
