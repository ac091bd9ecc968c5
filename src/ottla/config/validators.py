"""Checks of parsed values: ranges, words, lists of words, and rules of single settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Check(Protocol):
    """A check of a parsed value: returns the problem with the value, or None."""

    @property
    def allowed(self) -> str:
        """The values that pass, in words for a reference page."""

    def __call__(self, value: Any, /) -> str | None: ...


# Plain classes: they are made at every start, and a dataclass takes the start half a millisecond.


class Range:
    """A number between two limits, both included; a missing limit does not bind."""

    __slots__ = ("largest", "smallest")

    def __init__(self, smallest: float, largest: float | None = None) -> None:
        self.smallest = smallest
        self.largest = largest

    @property
    def allowed(self) -> str:
        """See Check."""
        return (
            f"at least {self.smallest}" if self.largest is None else f"from {self.smallest} to {self.largest}"
        )

    def __call__(self, value: Any, /) -> str | None:
        if value is None:
            return None
        if value < self.smallest:
            return f"Value must be at least {self.smallest}"
        if self.largest is not None and value > self.largest:
            return f"Value must be no more than {self.largest}"
        return None


class OneOf:
    """One of a few words."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, words: tuple[str, ...], ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    @property
    def allowed(self) -> str:
        """See Check."""
        return f"one of {', '.join(self.words)}" + (" (in any case)" if self.ignore_case else "")

    def __call__(self, value: Any, /) -> str | None:
        known = value is not None and (
            value.upper() in (word.upper() for word in self.words)
            if self.ignore_case
            else value in self.words
        )
        if known:
            return None
        case = " (case insensitive)" if self.ignore_case else ""
        return f"String must be one of{case}: {', '.join(self.words)}"


class ListOf:
    """A list of any words or of the given ones, empty only if `empty` says so."""

    __slots__ = ("empty", "words")

    def __init__(self, words: tuple[str, ...] = (), empty: bool = True) -> None:
        self.words = words
        self.empty = empty

    @property
    def allowed(self) -> str:
        """See Check."""
        words = f"any of {', '.join(self.words)}" if self.words else ""
        return ", ".join(filter(None, (words, "" if self.empty else "at least one")))

    def __call__(self, value: Any, /) -> str | None:
        if value is None:
            return None
        if not value:
            return None if self.empty else "The list must not be empty"
        if not all(value):
            return "The list must not have empty values"
        if self.words and not set(self.words).issuperset(value):
            return f"String must be one of: {', '.join(self.words)}"
        return None


class Rule:
    """A check by a function, which returns the problem with a value, or None."""

    __slots__ = ("_problem", "allowed")

    def __init__(self, allowed: str, problem: Callable[[Any], str | None]) -> None:
        self.allowed = allowed
        self._problem = problem

    def __call__(self, value: Any, /) -> str | None:
        return self._problem(value)


def at_least(smallest: float) -> Range:
    """Allows numbers from `smallest` on."""
    return Range(smallest)


def between(smallest: float, largest: float) -> Range:
    """Allows numbers from `smallest` to `largest`."""
    return Range(smallest, largest)


not_empty = Rule("not empty", lambda value: "String must be non-empty" if value == "" else None)
