"""Finds imports and custom options in a .proto text; reads the options without the files that declare them.

protoc interprets options, so it needs each option's declaration. This module only knows their syntax: a name
in parts, and a literal or a value in text format between braces. A text that is not of this syntax is left to
protoc, which refuses it with a line and a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor_pb2 import UninterpretedOption
from google.protobuf.text_encoding import CUnescape

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.source_limits import COMMENT, MAX_NESTING, STRING
from ottla.schemas.protobuf.text_values import quoted_bytes

_TOKEN: Final = re.compile(
    rf"(?P<skipped>\s+|{COMMENT})|(?P<string>{STRING})"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eE][+-]|[\w.])*)|(?P<mark>.)",
    re.DOTALL,
)
_VISIBILITIES: Final = frozenset({"export", "local"})
_BLOCKS: Final = {
    "enum": "EnumOptions",
    "service": "ServiceOptions",
    "rpc": "MethodOptions",
    "oneof": "OneofOptions",
}
"""For the first words of blocks: the options that stand in them. Other blocks are messages."""
_LARGEST: Final = (1 << 64) - 1
_SMALLEST: Final = -(1 << 63)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CustomOption:
    """A custom option in a text, from `start` to `end`."""

    start: int
    end: int
    holder: str
    """The message of descriptor.proto that has such options: FieldOptions, FileOptions…"""
    scope: str
    """The full name of the block in which it stands, or the package."""
    value: UninterpretedOption
    is_statement: bool
    """Whether it is a statement of its own, rather than one of a list in brackets."""

    @property
    def extensions(self) -> list[str]:
        """The names of the extensions in its name, as they are written."""
        return [part.name_part for part in self.value.name if part.is_extension]


@dataclass(frozen=True, slots=True)
class Outline:
    """A text's imports and custom options."""

    imports: tuple[str, ...]
    options: tuple[CustomOption, ...]


def outline_of(text: str) -> Outline:
    """The imports and custom options of a text whose strings and comments end. Raises InvalidSchema."""
    return _Reader(text).outline()


class _NotUnderstood(Exception):
    """The text is not what the reader expects; protoc will say so."""


class _Reader:
    """Walks over the statements of one text."""

    __slots__ = ("_at", "_imports", "_options", "_scopes", "_tokens")

    def __init__(self, text: str) -> None:
        self._tokens = [
            _Token(found.lastgroup or "", found[0], found.start(), found.end())
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "skipped"
        ]
        self._at = 0
        self._imports: list[str] = []
        self._options: list[CustomOption] = []
        self._scopes: list[tuple[str, str]] = [("FileOptions", "")]
        """The blocks around the current statement: the options that stand in them, and their full names."""

    def outline(self) -> Outline:
        try:
            while self._at < len(self._tokens):
                self._statement()
        except _NotUnderstood:
            pass  # protoc has an error to tell
        return Outline(tuple(self._imports), tuple(self._options))

    # Tokens

    def _peek(self, ahead: int = 0) -> _Token:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else _Token("end", "", 0, 0)

    def _next(self) -> _Token:
        token = self._peek()
        if token.kind == "end":
            raise _NotUnderstood
        self._at += 1
        return token

    def _expect(self, mark: str) -> _Token:
        token = self._next()
        if token.text != mark or token.kind == "string":
            raise _NotUnderstood
        return token

    def _if_next(self, mark: str) -> str:
        """The mark if it is the next token, which is taken then; else nothing."""
        if self._peek().text != mark:
            return ""
        self._at += 1
        return mark

    # Statements

    def _statement(self) -> None:
        first = self._next()
        match first.text:
            case "}" | ";":
                if first.text == "}" and len(self._scopes) > 1:
                    self._scopes.pop()
                return
            case "option" if self._peek().text == "(" or self._peek().kind == "word":
                self._option_statement(first)
                return
            case "import":
                self._import()
                return
            case "package":
                self._scopes[0] = ("FileOptions", self._dotted())
                return
        if first.text in _VISIBILITIES and self._peek().kind == "word":
            first = self._next()
        self._rest_of_statement(first)

    def _rest_of_statement(self, first: _Token) -> None:
        name = previous = first
        while True:
            token = self._next()
            if token.kind == "string":
                continue
            match token.text:
                case ";":
                    return
                case "{":
                    self._scopes.append(self._block(first.text, name.text))
                    return
                case "}":
                    raise _NotUnderstood
                case "[":
                    self._options_in_brackets(first.text)
                case _ if token.kind == "word" and (previous is first or previous.text == "group"):
                    name = token
            previous = token

    def _block(self, word: str, name: str) -> tuple[str, str]:
        scope = self._scopes[-1][1]
        if word == "extend":
            return "MessageOptions", scope
        return _BLOCKS.get(word, "MessageOptions"), f"{scope}.{name}" if scope else name

    def _import(self) -> None:
        while self._peek().kind == "word":
            self._next()
        path = self._next()
        if path.kind == "string":
            self._imports.append(path.text[1:-1])

    def _option_statement(self, first: _Token) -> None:
        value, _ = self._option()
        end = self._expect(";").end
        self._found(first.start, end, self._scopes[-1][0], value, is_statement=True)

    def _options_in_brackets(self, word: str) -> None:
        holder = {"EnumOptions": "EnumValueOptions"}.get(self._scopes[-1][0], "FieldOptions")
        if word == "extensions":
            holder = "ExtensionRangeOptions"
        while True:
            start = self._peek().start
            value, end = self._option()
            self._found(start, end, holder, value, is_statement=False)
            if self._next().text == "]":
                return

    def _found(
        self, start: int, end: int, holder: str, value: UninterpretedOption, *, is_statement: bool
    ) -> None:
        if any(part.is_extension for part in value.name):
            scope = self._scopes[-1][1]
            self._options.append(CustomOption(start, end, holder, scope, value, is_statement))

    # One option

    def _option(self) -> tuple[UninterpretedOption, int]:
        """An option with its name and its value, and where it ends."""
        option = UninterpretedOption()
        while True:
            if self._peek().text == "(":
                self._next()
                name = self._dotted()
                self._expect(")")
                option.name.add(name_part=name, is_extension=True)
            else:
                option.name.add(name_part=self._word(), is_extension=False)
            if self._peek().text != ".":
                break
            self._next()
        self._expect("=")
        if self._peek().text == "{":
            option.aggregate_value = self._aggregate(1)
        else:
            self._literal(option)
        return option, self._peek(-1).end

    def _word(self) -> str:
        token = self._next()
        if token.kind != "word":
            raise _NotUnderstood
        return token.text

    def _dotted(self) -> str:
        """A name of several parts, which may begin with a dot."""
        parts = self._if_next(".") + self._word()
        while self._peek().text == ".":
            self._next()
            parts += f".{self._word()}"
        return parts

    def _literal(self, option: UninterpretedOption) -> None:
        if self._peek().kind == "string":
            option.string_value = self._string()
            return
        sign = self._if_next("-")
        token = self._next()
        if token.kind == "word" and not sign:
            option.identifier_value = token.text
        elif token.kind == "word":
            option.double_value = _number(sign + token.text)
        elif token.kind == "number":
            value = _integer(sign, token.text)
            if value is None or not _SMALLEST <= value <= _LARGEST:
                option.double_value = _number(sign + token.text)
            elif value < 0:
                option.negative_int_value = value
            else:
                option.positive_int_value = value
        else:
            raise _NotUnderstood

    def _string(self) -> bytes:
        """A string of one or more literals."""
        value = b""
        while self._peek().kind == "string":
            try:
                value += CUnescape(self._next().text[1:-1])
            except (ValueError, TypeError):
                raise InvalidSchema("a string in an option is not escaped rightly") from None
        return value

    # Values in text format, in one layout

    def _aggregate(self, depth: int) -> str:
        if depth > MAX_NESTING:
            raise InvalidSchema(f"the value of an option is nested more than {MAX_NESTING} deep")
        closing = "}" if self._next().text == "{" else ">"
        fields: list[str] = []
        while self._peek().text != closing:
            fields.append(self._field(depth))
            if self._peek().text in (",", ";"):
                self._next()
        self._next()
        return "{" + ", ".join(fields) + "}"

    def _field(self, depth: int) -> str:
        if self._peek().text == "[":
            name = "".join(token.text for token in self._until("]"))
        else:
            name = self._word()
        if self._peek().text == ":":
            self._next()
        elif self._peek().text not in ("{", "<"):
            raise _NotUnderstood
        return f"{name}: {self._value(depth)}"

    def _until(self, mark: str) -> Iterator[_Token]:
        while True:
            token = self._next()
            if token.kind not in ("word", "number") and token.text not in ("[", "]", ".", "/", "-"):
                raise _NotUnderstood
            yield token
            if token.text == mark:
                return

    def _value(self, depth: int) -> str:
        token = self._peek()
        if token.kind == "string":
            return quoted_bytes(self._string())
        if token.text in ("{", "<"):
            return self._aggregate(depth + 1)
        if token.text == "[":
            return self._list(depth + 1)
        sign = self._if_next("-")
        token = self._next()
        if token.kind not in ("word", "number"):
            raise _NotUnderstood
        return sign + token.text

    def _list(self, depth: int) -> str:
        if depth > MAX_NESTING:
            raise InvalidSchema(f"the value of an option is nested more than {MAX_NESTING} deep")
        self._expect("[")
        values: list[str] = []
        while self._peek().text != "]":
            values.append(self._value(depth))
            if self._peek().text != "]":
                self._expect(",")
        self._next()
        return "[" + ", ".join(values) + "]"


def _integer(sign: str, text: str) -> int | None:
    try:
        base = 16 if text[:2] in ("0x", "0X") else 8 if text[0] == "0" else 10
        return int(sign + text, base)
    except ValueError:
        return None


def _number(text: str) -> float:
    try:
        return float(text.rstrip("fF") if not text.endswith("inf") else text)
    except ValueError:
        raise _NotUnderstood from None
