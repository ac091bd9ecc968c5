"""Settings of the original programs that a program here does not have: harmless ones, and those that refuse.

A file written for Kafka or Confluent names settings of things that ottla lacks or does not need. A harmless
one is told in a warning. One that asks for protection (authentication, TLS, a limit on clients) stops the
start: without that, the service would be open although its file says that it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_SECRET: Final = re.compile(
    r"password|passphrase|secret|jaas|token|credential|private|\.key$|key\.pem$|user\.info|bearer\.config",
    re.IGNORECASE,
)


class Unsupported:
    """The reason why a setting has no effect. A plain class: tables of them are made at every start.

    refuses: whether it stops the start. nothing: the values, in lower case, that ask for nothing. told: those
    that are told in a warning even if the setting refuses others.
    """

    __slots__ = ("nothing", "reason", "refuses", "told")

    def __init__(self, reason: str, refuses: bool, nothing: tuple[str, ...], told: tuple[str, ...]) -> None:
        self.reason = reason
        self.refuses = refuses
        self.nothing = nothing
        self.told = told

    def asks_for_nothing(self, text: str) -> bool:
        """Whether a program that lacks the setting does as this value says."""
        return all(item in self.nothing for item in _items(text))

    def stops(self, text: str) -> bool:
        """Whether this value stops the start."""
        return self.refuses and not all(item in self.nothing + self.told for item in _items(text))


def _items(text: str) -> list[str]:
    return [item.strip().lower() for item in text.split(",") if item.strip()]


def harmless(reason: str, *names: str, nothing: tuple[str, ...] = ()) -> dict[str, Unsupported]:
    """Settings that a warning names; a name with a dot at its end stands for all that begin so.

    nothing: values, in lower case, that need no warning.
    """
    return dict.fromkeys(names, Unsupported(reason, False, nothing, ()))


def refusing(
    reason: str, *names: str, nothing: tuple[str, ...] = (), told: tuple[str, ...] = ()
) -> dict[str, Unsupported]:
    """Settings that stop the start, unless all items of their value are among `nothing` and `told`."""
    return dict.fromkeys(names, Unsupported(reason, True, nothing, told))


def find_unsupported(table: Mapping[str, Unsupported], name: str) -> Unsupported | None:
    """The entry of this name, or the longest prefix of it that has one."""
    found = table.get(name)
    while found is None and "." in name:
        name = name.rstrip(".").rpartition(".")[0]
        found = table.get(f"{name}.")
    return found


def merged(tables: Iterable[Mapping[str, Unsupported]]) -> dict[str, Unsupported]:
    """One table of several, each of whose names is in one of them."""
    whole: dict[str, Unsupported] = {}
    for table in tables:
        assert not whole.keys() & table.keys(), whole.keys() & table.keys()
        whole |= table
    return whole


def is_secret(name: str) -> bool:
    """Whether the name of a setting that no table knows sounds as if its value must not be shown."""
    return _SECRET.search(name) is not None
