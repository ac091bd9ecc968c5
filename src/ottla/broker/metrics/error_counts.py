"""Counts the error codes of answers, wherever they stand in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ottla.protocol.schema import Message, Struct, StructMeta

Find = Callable[[Any], Iterator[int]]
_ERROR_FIELDS = frozenset({"error_code"})


class ErrorCodes:
    """Finds the error codes of messages; the way to them is looked up once for each class."""

    def __init__(self) -> None:
        self._finders: dict[type[Struct], Find | None] = {}

    def of(self, response: Message) -> Iterator[int]:
        """The codes in an answer that are not 0."""
        find = self._finder(type(response))
        return iter(()) if find is None else find(response)

    def _finder(self, kind: type[Struct]) -> Find | None:
        """A function that gives a struct's codes; None if it has no place for any."""
        try:
            return self._finders[kind]
        except KeyError:
            pass
        self._finders[kind] = None  # for a struct within itself; there is none
        own = any(field.name in _ERROR_FIELDS for field in kind.FIELDS)
        below: list[tuple[str, bool, Find]] = []
        for field in kind.FIELDS:
            if isinstance(field.kind, StructMeta):
                find = self._finder(field.kind)  # type: ignore[arg-type]
                if find is not None:
                    below.append((field.name, field.array, find))
        if not own and not below:
            return None

        def codes(value: Any) -> Iterator[int]:
            if own and value.error_code:
                yield value.error_code
            for name, is_array, find in below:
                part = getattr(value, name)
                if part is None:
                    continue
                if is_array:
                    for each in part:
                        yield from find(each)
                else:
                    yield from find(part)

        self._finders[kind] = codes
        return codes
