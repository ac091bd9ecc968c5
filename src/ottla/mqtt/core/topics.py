"""Names and filters of topics, and which name a filter matches.

Levels are what stands between slashes, empty ones too. `+` is one level, `#` all that are left, or none. A
filter that begins with a wildcard matches no name that begins with `$`. Nothing is normalized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ONE: Final = "+"
ALL: Final = "#"
SHARED: Final = "$share/"


def is_name(text: str) -> bool:
    """Whether a message can have this topic."""
    return bool(text) and ONE not in text and ALL not in text and "\0" not in text


def is_filter(text: str) -> bool:
    """Whether this can be subscribed to; a shared subscription has a name and a filter behind `$share/`."""
    if text.startswith(SHARED):
        return Shared.parse(text) is not None
    return _is_plain_filter(text)


def _is_plain_filter(text: str) -> bool:
    if not text or "\0" in text:
        return False
    if ONE not in text and ALL not in text:
        return True
    levels = text.split("/")
    last = len(levels) - 1
    for place, level in enumerate(levels):
        if len(level) > 1 and (ONE in level or ALL in level):
            return False
        if level == ALL and place != last:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Shared:
    """A shared subscription: each message goes to one of the clients with this name and filter."""

    share_name: str
    filter: str

    @classmethod
    def parse(cls, text: str) -> Shared | None:
        """The parts of `$share/NAME/FILTER`; None for a text that is not one."""
        name, slash, filter_ = text.removeprefix(SHARED).partition("/")
        if not text.startswith(SHARED) or not name or not slash or ONE in name or ALL in name:
            return None
        return cls(name, filter_) if _is_plain_filter(filter_) else None


def matches(filter_levels: Sequence[str], name: str) -> bool:
    """Whether the levels of a filter match a name."""
    levels = name.split("/")
    if name.startswith("$") and filter_levels[0] in (ONE, ALL):
        return False
    for place, wanted in enumerate(filter_levels):
        if wanted == ALL:
            return True
        if place >= len(levels) or wanted not in (ONE, levels[place]):
            return False
    return len(filter_levels) == len(levels)
