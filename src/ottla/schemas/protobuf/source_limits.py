"""The limits of a Protobuf source, checked before protoc, which runs in this process, gets it.

protoc is C++ and recurses over nested blocks: a text with some thousand open braces ends the process. Other
texts take it minutes (ranges are compared in pairs) or fill the memory with errors. The limits are far above
the size of real schemas. Texts whose strings or comments do not end are refused as well: protoc might see
braces in them that this module does not.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.schemas.format import InvalidSchema

MAX_SOURCE_BYTES: Final = 2 << 20
"""The size of a schema and all its references together."""
MAX_NESTING: Final = 50
"""Blocks within blocks; protoc itself nests messages 32 deep, but values of options without a limit."""
MAX_TOKENS: Final = 100_000
"""Words and marks, for each of which protoc may keep one or two errors. A field has about seven."""
MAX_BLOCKS: Final = 5_000
MAX_LIST_ITEMS: Final = 5_000
"""Commas: the ranges that they separate are compared in pairs."""
MAX_PATH_PARTS: Final = 40
"""Dots in one statement: each part of an option's name nests a message; protobuf reads 100 levels."""

COMMENT: Final = r"//[^\n]*|/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/"
STRING: Final = r""""(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'"""
_SKIPPED: Final = re.compile(f"{COMMENT}|{STRING}")
_LEFT_OPEN: Final = re.compile(r"/\*|[\"']")
_FOREIGN: Final = re.compile(r"[^\t\n\v\f\r -~]")
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_BLOCK: Final = re.compile(r"[{}<>]")
_STATEMENT_END: Final = re.compile(r"[;{},=\[\]]")
_BEGINNING: Final = re.compile(rf"(?:\s|{COMMENT})*(?:syntax|edition)\b")


class SourceBudget:
    """The remaining budget for all texts of one schema."""

    __slots__ = ("_blocks", "_bytes", "_list_items", "_tokens")

    def __init__(self) -> None:
        self._bytes = MAX_SOURCE_BYTES
        self._tokens = MAX_TOKENS
        self._blocks = MAX_BLOCKS
        self._list_items = MAX_LIST_ITEMS

    def spend(self, text: str) -> bool:
        """Count a text; returns whether it begins with its syntax or edition. Raises InvalidSchema."""
        self.spend_bytes(text)
        if "\0" in text:  # protoc ends strings and comments at a NUL
            raise InvalidSchema("the text has a zero byte in it")
        code = _SKIPPED.sub(" ", text)
        if (found := _LEFT_OPEN.search(code)) is not None:
            what = "string" if found[0] != "/*" else "comment"
            raise InvalidSchema(f"a {what} does not end, or has a comment's beginning in it")
        if (found := _FOREIGN.search(code)) is not None:
            raise InvalidSchema(f"the character {found[0]!r} stands outside of strings and comments")
        _check_nesting(code)
        self._tokens -= len(_TOKEN.findall(code))
        self._blocks -= code.count("{") + code.count("<")
        self._list_items -= code.count(",")
        if self._tokens < 0 or self._blocks < 0 or self._list_items < 0:
            raise InvalidSchema(
                f"the schema with its references is too large: at most {MAX_TOKENS} words and marks, "
                f"{MAX_BLOCKS} blocks and {MAX_LIST_ITEMS} commas"
            )
        return _BEGINNING.match(text) is not None

    def spend_bytes(self, text: str) -> None:
        """Count the size of a text. Raises InvalidSchema."""
        self._bytes -= len(text.encode("utf-8", "surrogatepass"))
        if self._bytes < 0:
            raise InvalidSchema(f"the schema with its references is over {MAX_SOURCE_BYTES} bytes")


def _check_nesting(code: str) -> None:
    braces = angles = 0
    for mark in _BLOCK.findall(code):
        match mark:
            case "{":
                braces += 1
            case "}":
                braces = max(0, braces - 1)
            case "<":
                angles += 1
            case _:
                angles = max(0, angles - 1)
        if braces + angles > MAX_NESTING:
            raise InvalidSchema(f"blocks are nested more than {MAX_NESTING} deep")
    if code.count(".") > MAX_PATH_PARTS and any(
        statement.count(".") > MAX_PATH_PARTS for statement in _STATEMENT_END.split(code)
    ):
        raise InvalidSchema(f"a name has more than {MAX_PATH_PARTS} parts")
