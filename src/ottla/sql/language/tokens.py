"""Tokens of statements, by a dialect of sqlglot's: words, quoted names, texts, numbers, operators.

The dialect has no keywords: ksqlDB's words are names wherever the grammar leaves room for one, so the parser
decides. Trees of sqlglot's are not used: they rewrite functions and lose positions.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import Dialect
from sqlglot import tokens as sqlglot_tokens
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from ottla.sql.language.errors import START, Position, SqlError

MAX_TEXT_CHARACTERS = 1_000_000
MAX_TOKENS = 100_000
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Kind(Enum):
    """What a token is."""

    WORD = "a word"
    NAME = "a quoted name"
    TEXT = "a text"
    NUMBER = "a number"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text` is without quotes, `word` in upper case (empty for what is no word)."""

    kind: Kind
    text: str
    at: Position
    end: int
    word: str = ""

    @property
    def shown(self) -> str:
        """The token as an error names it."""
        match self.kind:
            case Kind.END:
                return "the end of the statement"
            case Kind.TEXT:
                return f"'{self.text[:40]}'"
            case Kind.NAME:
                return f"`{self.text[:40]}`"
            case _:
                return self.text[:40]


class Ksql(Dialect):
    """ksqlDB's tokens."""

    class Tokenizer(sqlglot_tokens.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012
        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012
        STRING_ESCAPES = ["'"]  # noqa: RUF012
        KEYWORDS = {  # noqa: RUF012
            "->": TokenType.ARROW,
            ":=": TokenType.COLON_EQ,
            "=>": TokenType.FARROW,
            "<>": TokenType.NEQ,
            "!=": TokenType.NEQ,
            "<=": TokenType.LTE,
            ">=": TokenType.GTE,
            "||": TokenType.DPIPE,
        }


_DIALECT = Ksql()


def tokenize(text: str) -> list[Token]:
    """All tokens of a text, and one of Kind.END. Raises SqlError."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise SqlError(f"the text has {len(text):,} characters, {MAX_TEXT_CHARACTERS:,} are allowed", START)
    places = _Places(text)
    try:
        found = _DIALECT.tokenize(text)
    except SqlglotError:
        raise _unfinished(text, places) from None
    if len(found) > MAX_TOKENS:
        raise SqlError(f"the text has {len(found):,} words and signs, {MAX_TOKENS:,} are allowed", START)
    tokens = [_token(each, text, places) for each in found]
    return [*tokens, Token(Kind.END, "", places.of(len(text.rstrip())), len(text))]


class _Places:
    """Line and column of offsets."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]

    def of(self, offset: int) -> Position:
        line = bisect.bisect_right(self._starts, offset)
        return Position(offset, line, offset - self._starts[line - 1] + 1)


def _token(found: SqlglotToken, text: str, places: _Places) -> Token:
    at, end = places.of(found.start), found.end + 1
    match found.token_type:
        case TokenType.IDENTIFIER:
            return Token(Kind.NAME, found.text, at, end)
        case TokenType.STRING:
            return Token(Kind.TEXT, found.text, at, end)
        case TokenType.NUMBER:
            return Token(Kind.NUMBER, found.text, at, end)
        case _:
            written = text[found.start : end]
            if written[:1].isalpha() or written[:1] == "_":
                return Token(Kind.WORD, written, at, end, written.upper())
            return Token(Kind.SIGN, written, at, end)


_PIECES = re.compile(
    r"--[^\r\n]*|/\*.*?\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|[^-/'`\"]+|[-/]", re.S
)


def _unfinished(text: str, places: _Places) -> SqlError:
    """The error for a quote or a comment without an end: the first place where nothing whole begins."""
    offset = 0
    while (found := _PIECES.match(text, offset)) is not None:
        offset = found.end()
    sign = text[offset : offset + 1]
    if sign in ("'", "`", '"'):
        return SqlError(
            f"the quote {sign} is not closed",
            places.of(offset),
            f"close it with {sign}; within it, write {sign}{sign}",
        )
    return SqlError("the text can't be read", START, "is a quote or a comment not closed?")


def with_variables(tokens: list[Token], variables: Mapping[str, str]) -> list[Token]:
    """The tokens with `${name}` replaced, in texts and quoted names too. Raises SqlError for unknown names.

    A value stands for one text, number, name or word: it can't bring syntax of its own.
    """
    result: list[Token] = []
    number = 0
    while number < len(tokens):
        token = tokens[number]
        if token.kind in (Kind.TEXT, Kind.NAME) and "${" in token.text:
            pieces = _VARIABLE.split(token.text)
            pieces[1::2] = [_value(name, token.at, variables) for name in pieces[1::2]]
            token = replace(token, text="".join(pieces))
        if token.text == "$" and [each.text for each in tokens[number + 1 : number + 4 : 2]] == ["{", "}"]:
            token = _substituted(_value(tokens[number + 2].text, token.at, variables), token)
            number += 3
        result.append(token)
        number += 1
    return result


def _value(name: str, at: Position, variables: Mapping[str, str]) -> str:
    found = {each.upper(): value for each, value in variables.items()}.get(name.upper())
    if found is None:
        raise SqlError(f"the variable {name} is not defined", at, f"DEFINE {name} = '…'; first")
    return found


def _substituted(value: str, reference: Token) -> Token:
    inner = [each for each in tokenize(value) if each.kind is not Kind.END]
    if len(inner) != 1 or inner[0].kind is Kind.SIGN:
        raise SqlError(
            f"the variable's value {value!r} is not one name, text or number",
            reference.at,
            "write '${…}' if it is a text",
        )
    return replace(inner[0], at=reference.at, end=reference.end)
