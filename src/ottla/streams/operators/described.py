"""The description of a stateful operator: its work, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.streams.operators.windows import Windows

FOR_EVER: Final = "for ever"
SENDS_CHANGES: Final = "sends a record for each change"
SENDS_BATCH_CHANGES: Final = "sends, after each batch, the new value of each key that it changed"
SENDS_CLOSED: Final = "sends each window's value once, when the window is closed"


@dataclass(frozen=True, slots=True)
class StateText:
    """The state of a node in words.

    what: the entries that are kept. kept: until when. windows: None without windows. emits: when results go
    on.
    """

    what: str
    kept: str
    windows: str | None
    emits: str

    @property
    def windows_in_short(self) -> str:
        """The windows without when they close; nothing without windows."""
        return (self.windows or "").partition(", closed")[0]


@dataclass(frozen=True, slots=True)
class OperatorText:
    """A stateful operator in words. operation: in a word or two. what: in full."""

    operation: str
    what: str
    state: StateText


def windowed_state(entries: str, windows: Windows | None, *, once_closed: bool) -> StateText:
    """The state of an aggregate. `once_closed`: each window's value is sent once, when it is closed."""
    if windows is None:
        return StateText(entries, FOR_EVER, None, SENDS_BATCH_CHANGES)
    sends = SENDS_CLOSED if once_closed else SENDS_BATCH_CHANGES
    return StateText(entries, "until the window is closed", windows.in_words, sends)
