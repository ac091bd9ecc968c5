"""DDL as tokens: names, texts, numbers, marks; comments are left out, executable ones are not; no I/O.

sqlglot's tokenizer takes `/*! ... */` and `/*M! ... */` for comments, and its parser keeps much of ALTER
TABLE as a text: so this is ours.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

MAX_STATEMENT_CHARACTERS: Final = 16_000_000
_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+ | --(?=\s|$)[^\n]* | \#[^\n]* | /\*(?!M?!).*?(?:\*/|$))
    | (?P<open>/\*M?!\d*)
    | (?P<close>\*/)
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<bits>[bB]'[01]*'|0[bB][01]+(?![\w$]))
    | (?P<hex>[xX]'[0-9a-fA-F]*'|0[xX][0-9a-fA-F]+(?![\w$]))
    | (?P<text>[nN]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
    | (?P<word>[\w$@\u0080-\uffff]+)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted"
    TEXT = "text"
    NUMBER = "number"
    BITS = "bits"
    HEX = "hex"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Token:
    """A token. text: without quotes; upper: of a bare word, "" for others."""

    kind: Kind
    text: str
    upper: str = ""


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a statement. Raises ValueError for one that is too long."""
    if len(sql) > MAX_STATEMENT_CHARACTERS:
        raise ValueError(f"a statement of {len(sql)} characters")
    found = []
    for match in _TOKEN.finditer(sql):
        text = match.group()
        match match.lastgroup:
            case "quoted":
                found.append(Token(Kind.QUOTED, text[1:-1].replace("``", "`")))
            case "text":
                found.append(Token(Kind.TEXT, _unquoted(text.lstrip("nN"))))
            case "number":
                found.append(Token(Kind.NUMBER, text))
            case "bits":
                found.append(Token(Kind.BITS, text[2:].rstrip("'")))
            case "hex":
                found.append(Token(Kind.HEX, text[2:].rstrip("'")))
            case "word":
                found.append(Token(Kind.WORD, text, text.upper()))
            case "mark":
                found.append(Token(Kind.MARK, text))
    return found


def _unquoted(text: str) -> str:
    quote, inner = text[0], text[1:-1]
    if "\\" not in inner and quote not in inner:
        return inner
    found, at = [], 0
    while at < len(inner):
        each = inner[at]
        if each == "\\" and at + 1 < len(inner):
            at += 1
            found.append(_ESCAPES.get(inner[at], inner[at]))
        elif each == quote:
            at += 1
            found.append(quote)
        else:
            found.append(each)
        at += 1
    return "".join(found)
