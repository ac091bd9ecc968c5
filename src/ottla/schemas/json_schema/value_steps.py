"""Bounds what checking a value against a schema takes: subschemas that apply in place are counted.

A schema of a kilobyte can apply itself to one number a million times (`allOf`, twice the definition before);
what descends into the value is bounded by the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ottla.schemas.effort import Effort

STEPS_OF_A_VALUE: Final = 100
LEAST_STEPS: Final = 20_000
"""For any value, however small."""
IN_PLACE: Final = frozenset(
    {
        "$dynamicRef",
        "$recursiveRef",
        "$ref",
        "allOf",
        "anyOf",
        "dependencies",
        "dependentSchemas",
        "if",
        "not",
        "oneOf",
    }
)
"""The keywords whose subschemas apply to the value itself."""

Check = Callable[[Any, Any, Any, Any], Iterable[Any] | None]

_effort: ContextVar[Effort | None] = ContextVar("steps of the value that is checked", default=None)
"""The library's keywords are functions of the class of a draft: nothing else leads to them."""


@contextmanager
def counted_for(value: object) -> Iterator[None]:
    """Within, checks raise TooMuchWork where they take more than `value` may."""
    token = _effort.set(Effort(LEAST_STEPS + STEPS_OF_A_VALUE * _size(value)))
    try:
        yield
    finally:
        _effort.reset(token)


def counting(check: Check) -> Check:
    """The keyword's check, counted."""

    def checked(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterable[Any]:
        effort = _effort.get()
        if effort is not None:
            effort.spend()
        return check(validator, wanted, instance, schema) or ()

    return checked


def _size(value: object) -> int:
    size, waiting = 1, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, (dict, list)):
            size += len(inner)
            waiting.extend(inner.values() if isinstance(inner, dict) else inner)
    return size
