"""What is derived from schemas, kept within bounds: schemas repeat from record to record."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.connect.data.schema import Schema

K = TypeVar("K")
T = TypeVar("T")


class SchemaCache(Generic[T]):
    """Keeps what `derive` makes of the `limit` schemas used last. Used by one thread.

    The very same object as before is found without looking into it, another schema by its identity; an equal
    schema that is another object is derived again.
    """

    __slots__ = ("_derive", "_found", "_kept", "_limit", "_schema")

    def __init__(self, derive: Callable[[Schema], T], limit: int = 16) -> None:
        self._derive = derive
        self._limit = max(1, limit)
        self._kept: OrderedDict[int, tuple[Schema, T]] = OrderedDict()
        self._schema: Schema | None = None
        self._found: T | None = None

    def get(self, schema: Schema) -> T:
        """What is derived from a schema. Raises what `derive` raises."""
        if schema is self._schema:
            return self._found  # type: ignore[return-value]
        kept = self._kept.get(id(schema))
        if kept is None:
            kept = schema, self._derive(schema)
            self._kept[id(schema)] = kept  # it holds the schema, so that its id is no other object's
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(id(schema))
        self._schema, self._found = kept
        return kept[1]

    def __len__(self) -> int:
        return len(self._kept)


def keep(kept: dict[K, T], key: K, value: T, limit: int) -> None:
    """Keep a value under a new key; where there are `limit` of them, the one kept first makes room."""
    while len(kept) >= limit:
        del kept[next(iter(kept))]
    kept[key] = value
