"""The menu of candidates: what prompt_toolkit offers, and that it offers what fits the text and the names.

prompt_toolkit collects candidates in a thread, one collection at a time. It forgets a text that is typed
while it collects for another one which was deleted, and knows nothing of names that come later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ottla.cli.sql.shell_words import FIRST_WORDS
from ottla.sql.terminal.completion import candidates
from ottla.sql.terminal.known_names import KnownNames
from ottla.sql.terminal.names import Names

LOOK_SECONDS: Final = 0.1
"""Between two looks whether the menu is of what is typed."""


class StatementCompleter(Completer):
    """Candidates for prompt_toolkit. done: the last text for which all were told, and of which names."""

    def __init__(self, known: KnownNames) -> None:
        self._known = known
        self.done: tuple[str, Names] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before, after = document.text_before_cursor, document.text_after_cursor
        names = self._known.names
        # Without a letter there would be a list at each space; Tab asks for it.
        if complete_event.completion_requested or before[-1:].isidentifier():
            for each in candidates(before, after, names, FIRST_WORDS):
                meta = " ".join(word for word in (each.kind.value, each.note) if word)
                yield Completion(each.text, -each.typed, display_meta=meta)
        self.done = (before, names)


class Offering:
    """Looks at the menu from an insertion, or new names, until it is of that text and these names."""

    def __init__(self, session: PromptSession[str], completer: StatementCompleter, known: KnownNames) -> None:
        self._session = session
        self._completer = completer
        self._known = known
        self._text = ""
        self._next_look: asyncio.TimerHandle | None = None
        session.default_buffer.on_text_insert += self._inserted

    def names_arrived(self) -> None:
        """There are new names; called from any thread."""
        loop = self._session.app.loop
        if loop is not None:  # something is being typed
            with contextlib.suppress(RuntimeError):  # the loop has ended with its line
                loop.call_soon_threadsafe(self._inserted, self._session.default_buffer)

    def _inserted(self, buffer: Buffer) -> None:
        self._text = buffer.document.text_before_cursor
        if self._next_look is not None:
            self._next_look.cancel()
        self._look_later()

    def _look_later(self) -> None:
        loop = self._session.app.loop
        self._next_look = None if loop is None else loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        buffer = self._session.default_buffer
        text, state, done = buffer.document.text_before_cursor, buffer.complete_state, self._completer.done
        if not self._session.app.is_running or not text or text != self._text:
            return
        if done == (text, self._known.names) or (state is not None and state.complete_index is not None):
            return
        if state is not None and done is not None and done[0] == text:
            buffer.cancel_completion()  # the menu is of other names
            state = None
        if state is None:
            buffer.start_completion(complete_event=CompleteEvent(text_inserted=True))
        self._look_later()
