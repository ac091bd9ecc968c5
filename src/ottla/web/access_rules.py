"""Who may read, write and administer which names: subjects of the registry, topics of the REST proxy.

A rule is `WHO ACTION NAMES`. WHO: `User:alice`, the name of a principal; `Role:orders`, a role from the file
of users or from a token; `*`, every client. ACTION: read, write or admin, each of which includes those before
it. NAMES: `orders` alone, `orders-*` for all that begin so, `*` for all, and for things without a name.
Actions that no rule allows are refused; without any rules all are allowed.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_RULES: Final = 100_000
MAX_FILE_BYTES: Final = 16 << 20
KEPT_CALLERS: Final = 1_024
"""The most callers whose grants are kept; those of others are collected from the rules again."""
ANY: Final = "*"
_USER: Final = "User:"
_ROLE: Final = "Role:"


class Action(enum.IntEnum):
    """What a caller does; a higher one includes the lower ones."""

    READ = 1
    WRITE = 2
    ADMIN = 3


class UnusableRules(ValueError):
    """A rule can't be read; one line that has it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """names: a literal, or the prefix behind which a `*` stood (`is_prefix`)."""

    who: str
    action: Action
    names: str
    is_prefix: bool


class Grants:
    """What one caller may do."""

    __slots__ = ("_everything", "_literal", "_prefixes", "_some")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._literal: dict[str, int] = {}
        prefixes: dict[str, int] = {}
        for rule in rules:
            kept = prefixes if rule.is_prefix else self._literal
            kept[rule.names] = max(rule.action, kept.get(rule.names, 0))
        self._everything = prefixes.pop("", 0)
        self._prefixes = tuple(prefixes.items())
        self._some = max((self._everything, *prefixes.values(), *self._literal.values()))

    def allow(self, action: Action, name: str) -> bool:
        """Whether the caller may do this to the thing of this name."""
        return (
            self._everything >= action
            or self._literal.get(name, 0) >= action
            or any(granted >= action and name.startswith(prefix) for prefix, granted in self._prefixes)
        )

    def allow_prefix(self, action: Action, prefix: str) -> bool:
        """Whether the caller may do this to all things whose names begin so."""
        return self._everything >= action or any(
            granted >= action and prefix.startswith(known) for known, granted in self._prefixes
        )

    def allow_all(self, action: Action) -> bool:
        """Whether the caller may do this to everything."""
        return self._everything >= action

    def allow_some(self, action: Action) -> bool:
        """Whether there is a name to which the caller may do this."""
        return self._some >= action


UNLIMITED: Final = Grants((Rule(ANY, Action.ADMIN, "", True),))


class AccessRules:
    """The rules of a service."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._by_who: dict[str, list[Rule]] = {}
        for rule in rules:
            self._by_who.setdefault(rule.who, []).append(rule)
        self._kept: OrderedDict[tuple[str, frozenset[str]], Grants] = OrderedDict()

    def grants(self, principal: str, roles: frozenset[str]) -> Grants:
        """What a caller of this principal, with these roles, may do."""
        key = (principal, roles)
        found = self._kept.get(key)
        if found is None:
            whos = (principal, ANY, *(f"{_ROLE}{role}" for role in roles))
            found = Grants(rule for who in whos for rule in self._by_who.get(who, ()))
            self._kept[key] = found
            if len(self._kept) > KEPT_CALLERS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found


def parse_rules(texts: Iterable[str], place: str) -> list[Rule]:
    """The rules of some lines; empty ones, and those that begin with #, are none. Raises UnusableRules."""
    rules = [
        _rule(text.strip(), place) for text in texts if text.strip() and not text.lstrip().startswith("#")
    ]
    if len(rules) > MAX_RULES:
        raise UnusableRules(f"{place}: more than {MAX_RULES} rules")
    return rules


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file, one a line. Raises UnusableRules."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UnusableRules(f"{path}: larger than {MAX_FILE_BYTES} bytes")
        return parse_rules(data.decode().splitlines(), str(path))
    except OSError as problem:
        raise UnusableRules(f"can't read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise UnusableRules(f"{path}: it is not a text in UTF-8") from None


def _rule(text: str, place: str) -> Rule:
    # The name of a principal may have spaces: `User:CN=a b,O=c`.
    words = text.rsplit(maxsplit=2)
    if len(words) != 3:
        raise UnusableRules(
            f"{place}: {text[:200]!r} is not WHO ACTION NAMES, as in `Role:dev read orders-*`"
        )
    who, action, names = words
    if who != ANY and not who.startswith((_USER, _ROLE)):
        raise UnusableRules(f"{place}: {who[:200]!r} is not User:NAME, Role:NAME or *")
    if action.upper() not in Action.__members__:
        raise UnusableRules(f"{place}: {action[:200]!r} is not read, write or admin")
    if ANY in names[:-1]:
        raise UnusableRules(f"{place}: {names[:200]!r} has a * that is not its end")
    return Rule(who, Action[action.upper()], names.removesuffix(ANY), names.endswith(ANY))
