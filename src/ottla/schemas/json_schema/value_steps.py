"""Bounds the time for checking a value against a schema: counts the subschemas that apply in place.

A schema of a kilobyte can apply itself to one number a million times (`allOf` with twice the definition
before). Keywords that descend into the value are bounded by its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ottla.schemas.effort import Effort

STEPS_OF_A_VALUE: Final = 100
LEAST_STEPS: Final = 20_000
"""The steps for any value, however small."""
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
"""The counter of the running check. The library calls keywords as functions, with no argument for it."""


@contextmanager
def counted_for(value: object) -> Iterator[None]:
    """Within the block, checks raise TooMuchWork if they take more steps than `value` allows."""
    token = _effort.set(Effort(LEAST_STEPS + STEPS_OF_A_VALUE * _size(value)))
    try:
        yield
    finally:
        _effort.reset(token)


def counting(check: Check) -> Check:
    """The keyword's check, with each call counted as a step."""

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
