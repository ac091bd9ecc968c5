"""Options that several commands take, and rules between options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from ottla.config.errors import UsageError
from ottla.config.sources import from_words, texts

INT32: Final = click.IntRange(-(2**31), 2**31 - 1)
"""Of ids and numbers that requests carry in 32 bits."""
COUNT: Final = click.IntRange(1, 2**31 - 1)
"""Of numbers of partitions, replicas and the like."""
Decorated = Callable[[Callable[..., Any]], Callable[..., Any]]


def pairs_option(option: str, name: str, help: str) -> Decorated:
    """An option of KEY=VALUE that may be repeated; its value is a tuple of words, which `pairs_of` reads."""
    return click.option(option, name, multiple=True, metavar="KEY=VALUE", help=help)


def pairs_of(option: str, words: tuple[str, ...]) -> dict[str, str]:
    """The pairs of an option of `pairs_option` that gives no settings of a table. Raises UsageError."""
    return texts(from_words(words, option))


def positive_number(text: str) -> float:
    """The value of an option that is a number above 0 and below infinity."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise click.BadParameter("must be more than 0")
    return value


def require_at_most_one(given: Mapping[str, object]) -> None:
    """Raises UsageError if several options have a value. given: the options' values, by `--option`."""
    named = [option for option, value in given.items() if value not in (None, False, ())]
    if len(named) > 1:
        raise UsageError(f"{named[1]} can't be given together with {named[0]}")


def require_one(given: Mapping[str, object]) -> None:
    """Raises UsageError unless exactly one option has a value. given: as for `require_at_most_one`."""
    require_at_most_one(given)
    if all(value in (None, False, ()) for value in given.values()):
        *others, last = given
        raise UsageError(f"give {', '.join(others)} or {last}")
