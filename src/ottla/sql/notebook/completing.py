"""Completes statements behind `%sql` and in cells of `%%sql`: nothing is asked while somebody types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from IPython.core.completer import (
    CompletionContext,
    Matcher,
    SimpleCompletion,
    SimpleMatcherResult,
    completion_matcher,
)

from ottla.sql.notebook.options import OPTIONS
from ottla.sql.terminal.completion import CandidateKind, candidates
from ottla.sql.terminal.names import Names

IDENTIFIER: Final = "ottla.sql.statements"
_CELL: Final = re.compile(r"\s*%%sql(?=\s)")
_LINE: Final = re.compile(r"\s*%sql(?=\s)")
_GIVEN: Final = re.compile(r"(?:\s+--[\w-]+(?:\s*=\s*|\s+)(?:'[^']*'|\"[^\"]*\"|[^\s'\"-]\S*))*\s+")
_OPTION: Final = re.compile(r"(?:^|\s)(--?[\w-]*)\Z")


def statement_matcher(names: Callable[[], Names]) -> Matcher:
    """A matcher for IPython's completer. names: gives what the server knows."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        return _matches(context, names)

    found: Matcher = completion_matcher(identifier=IDENTIFIER, api_version=2)(matcher)
    return found


def _matches(context: CompletionContext, names: Callable[[], Names]) -> SimpleMatcherResult:
    """What may come at the cursor; nothing outside of the magics."""
    lines = context.full_text.split("\n")
    before = "\n".join([*lines[: context.cursor_line], context.text_until_cursor])
    rest = context.line_with_cursor[context.cursor_position :]
    after = "\n".join([rest, *lines[context.cursor_line + 1 :]])
    magic = _CELL.match(before)
    if magic is None:
        before, after = context.text_until_cursor, rest
        magic = _LINE.match(before)
    if magic is None:
        return SimpleMatcherResult(completions=[])
    head, line_end, below = before[magic.end() :].partition("\n")
    given = _GIVEN.match(head)
    statement = head[given.end() :] if given is not None else head
    option = _OPTION.search(head)
    if option is not None and not line_end and statement.strip() in ("", option[1]):
        known = [f"--{each}" for each in OPTIONS]
        return _result([SimpleCompletion(each) for each in known if each.startswith(option[1])], option[1])
    text = statement + line_end + below
    found = candidates(text, after, names())
    typed = text[-found[0].typed :] if found and found[0].typed else ""
    return _result([SimpleCompletion(each.text, type=_type(each.kind)) for each in found], typed)


def _type(kind: CandidateKind) -> str:
    """What IPython's list of candidates says."""
    return kind.value or "keyword"


def _result(completions: list[SimpleCompletion], typed: str) -> SimpleMatcherResult:
    return SimpleMatcherResult(completions=completions, matched_fragment=typed, suppress=True, ordered=True)
