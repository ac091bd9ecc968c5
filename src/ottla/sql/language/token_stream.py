"""A place in a statement's tokens: look, take, demand; and the small pieces that all grammars share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.tokens import Kind, Token

Piece = TypeVar("Piece")

RESERVED = frozenset(
    """SELECT FROM WHERE GROUP HAVING WINDOW PARTITION EMIT LIMIT JOIN INNER LEFT RIGHT FULL OUTER ON WITHIN
    AS AND OR NOT IN LIKE BETWEEN IS NULL TRUE FALSE CASE WHEN THEN ELSE END CAST ARRAY MAP STRUCT CREATE
    INSERT INTO VALUES DROP WITH DISTINCT ESCAPE BY""".split()  # noqa: SIM905
)
"""Words that are names only within quotes."""

_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 7 * 86_400_000,
}
MAX_DURATION_MS = 2**53


class TokenStream:
    """The tokens of one statement, read from left to right."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    @property
    def at(self) -> Position:
        return self.token.at

    def ahead(self, number: int = 1) -> Token:
        """The token that many places on, or the last one."""
        return self._tokens[min(self._next + number, len(self._tokens) - 1)]

    def advance(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self._next += 1
        return token

    def mark(self) -> int:
        return self._next

    def go_back(self, mark: int) -> None:
        self._next = mark

    # Words and signs

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.ahead(number).word == word for number, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Take these words if they come next; whether they did."""
        if not self.sees(*words):
            return False
        self._next += len(words)
        return True

    def needs(self, *words: str) -> None:
        """Take these words. Raises SqlError."""
        for word in words:
            if self.token.word != word:
                raise self.wrong(word)
            self._next += 1

    def sees_sign(self, sign: str) -> bool:
        return self.token.kind is Kind.SIGN and self.token.text == sign

    def takes_sign(self, sign: str) -> bool:
        if not self.sees_sign(sign):
            return False
        self._next += 1
        return True

    def needs_sign(self, sign: str) -> None:
        if not self.takes_sign(sign):
            raise self.wrong(sign)

    def wrong(self, expected: str, advice: str | None = None) -> SqlError:
        """The error that something else was expected here."""
        token = self.token
        if token.word in RESERVED and advice is None and expected.startswith("a name"):
            advice = f"{token.word} is a word of the language: write `{token.text}` for a name"
        return SqlError(f"expected {expected}, found {token.shown}", token.at, advice)

    # Names and constants

    def sees_name(self) -> bool:
        token = self.token
        return token.kind is Kind.NAME or (token.kind is Kind.WORD and token.word not in RESERVED)

    def name(self, what: str = "a name") -> str:
        """A name: in upper case, or as it is within quotes."""
        if not self.sees_name():
            raise self.wrong(what)
        token = self.advance()
        if token.kind is Kind.NAME:
            if not token.text:
                raise SqlError("a name can't be empty", token.at)
            return token.text
        return token.word

    def text(self, what: str = "a text in quotes") -> str:
        if self.token.kind is not Kind.TEXT:
            raise self.wrong(what, "texts are in single quotes: 'like this'")
        return self.advance().text

    def whole_number(self, what: str = "a whole number") -> int:
        if self.token.kind is not Kind.NUMBER or not self.token.text.isdigit() or len(self.token.text) > 18:
            raise self.wrong(what)
        return int(self.advance().text)

    def duration_ms(self) -> int:
        """`5 MINUTES`."""
        at = self.at
        number = self.whole_number("a number and a unit of time, as 5 MINUTES")
        unit = _UNITS_MS.get(self.token.word.removesuffix("S"))
        if unit is None:
            raise self.wrong("a unit of time", "MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS")
        self.advance()
        if number * unit > MAX_DURATION_MS:
            raise SqlError(f"{number} is too long a time", at)
        return number * unit

    def separated(self, piece: Callable[[], Piece]) -> tuple[Piece, ...]:
        """One piece or several, with commas between."""
        pieces = [piece()]
        while self.takes_sign(","):
            pieces.append(piece())
        return tuple(pieces)

    def in_parentheses(self, piece: Callable[[], Piece]) -> tuple[Piece, ...]:
        """`(piece, …)`."""
        self.needs_sign("(")
        pieces = self.separated(piece)
        self.needs_sign(")")
        return pieces
