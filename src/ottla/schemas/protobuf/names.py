"""Shortens names of types as people write them, if protoc finds the same type by the short name.

protoc looks for the first part of a name in the scope where it is used, then in each scope around that; the
first scope that has it decides. A name that begins with a dot is looked up as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.descriptor_pool import DescriptorPool

# Words that begin another statement where the name of a type is expected.
_KEYWORDS: Final = frozenset(
    """
    message enum extend extensions reserved oneof option optional required repeated map group stream export
    local service rpc import package syntax edition returns public weak to max true false inf nan double float
    int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes
    """.split()  # noqa: SIM905 (a list of fifty literals is no easier to read)
)


class ShortNames:
    """Shortens full names for one file; `packages` are those of all files in the pool."""

    __slots__ = ("_known", "_package", "_packages", "_pool", "_short")

    def __init__(self, pool: DescriptorPool, package: str, packages: Iterable[str]) -> None:
        self._pool = pool
        self._package = package
        self._packages = frozenset(
            name[:end]
            for name in packages
            for end in range(len(name) + 1)
            if name[end : end + 1] in (".", "")
        )
        self._known: dict[str, bool] = {}
        self._short: dict[tuple[str, str], str] = {}

    def of_type(self, full_name: str, scope: str) -> str:
        """The name for `full_name` (without a dot before it) inside of the message or package `scope`."""
        found = self._short.get((full_name, scope))
        if found is None:
            found = self._short[full_name, scope] = self._shortest(full_name, scope)
        return found

    def of_extension(self, full_name: str, scope: str) -> str:
        """The name for an extension; scopes of messages are not left out, as protoc may not look there."""
        prefix = f"{self._package}." if self._package else ""
        if full_name.startswith(prefix):
            short = full_name[len(prefix) :]
            if self._finds(short, full_name, scope):
                return short
        return full_name if self._finds(full_name, full_name, scope) else f".{full_name}"

    def _shortest(self, full_name: str, scope: str) -> str:
        parts = full_name.split(".")
        around = scope.split(".") if scope else []
        package = self._package.split(".") if self._package else []
        common = 0
        while common < min(len(parts) - 1, len(around)) and parts[common] == around[common]:
            common += 1
        if common < len(package):
            common = 0  # a type of another package: people write its whole name
        candidates = [*range(common, len(package) - 1, -1), 0] if common else [0]
        for cut in candidates:
            short = ".".join(parts[cut:])
            if self._finds(short, full_name, scope):
                return short
        return f".{full_name}"

    def _finds(self, short: str, full_name: str, scope: str) -> bool:
        first = short.partition(".")[0]
        if first in _KEYWORDS:
            return False
        while True:
            if self._exists(f"{scope}.{first}" if scope else first):
                return (f"{scope}.{short}" if scope else short) == full_name
            if not scope:
                return False
            scope = scope.rpartition(".")[0]

    def _exists(self, name: str) -> bool:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = name in self._packages or self._is_symbol(name)
        return found

    def _is_symbol(self, name: str) -> bool:
        try:
            self._pool.FindFileContainingSymbol(name)
        except KeyError:
            return False
        return True
