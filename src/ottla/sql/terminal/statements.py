"""Texts into statements, each with its place and who carries it out: the terminal itself or the server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.tokens import Kind, Token, tokenize, with_variables


class Sort(Enum):
    """What a statement is for a terminal. STATEMENT: all that the server carries out and answers at once."""

    STATEMENT = "statement"
    PUSH_QUERY = "push query"
    PULL_QUERY = "pull query"
    PRINT = "print"
    SET = "set"
    SET_CLI = "set cli"
    UNSET = "unset"
    DEFINE = "define"
    UNDEFINE = "undefine"
    SHOW_VARIABLES = "show variables"
    RUN_SCRIPT = "run script"


@dataclass(frozen=True, slots=True)
class Part:
    """One statement of a text, without its semicolon. at: where it begins in the whole text."""

    text: str
    at: Position
    tokens: tuple[Token, ...]
    sort: Sort

    @property
    def word(self) -> str:
        """Its first word, in upper case."""
        return self.tokens[0].word


def parts_of(text: str) -> list[Part]:
    """The statements of a text. Raises SqlError for a quote or comment without an end."""
    return [
        Part(text[tokens[0].at.offset : tokens[-1].end], tokens[0].at, tokens, _sort(tokens))
        for tokens, _ in _split(tokenize(text))
    ]


def is_complete(text: str) -> bool:
    """Whether a text that somebody types may be carried out: all that is in it is closed by a semicolon."""
    try:
        found = list(_split(tokenize(text)))
    except SqlError:
        return False
    return not found or found[-1][1]


def _split(tokens: list[Token]) -> Iterator[tuple[tuple[Token, ...], bool]]:
    """The tokens of each statement, and whether a semicolon closes it."""
    begin = 0
    for number, token in enumerate(tokens):
        closes = token.kind is Kind.SIGN and token.text == ";"
        if closes or token.kind is Kind.END:
            if number > begin:
                yield tuple(tokens[begin:number]), closes
            begin = number + 1


def _sort(tokens: tuple[Token, ...]) -> Sort:
    words = [token.word for token in tokens[:2]] + ["", ""]
    match words[0], words[1]:
        case "SELECT", _:
            return Sort.PUSH_QUERY if _emits(tokens) else Sort.PULL_QUERY
        case "PRINT", _:
            return Sort.PRINT
        case "SET", "CLI":
            return Sort.SET_CLI
        case "SET", _:
            return Sort.SET
        case "UNSET", _:
            return Sort.UNSET
        case "DEFINE", _:
            return Sort.DEFINE
        case "UNDEFINE", _:
            return Sort.UNDEFINE
        case (("SHOW" | "LIST"), "VARIABLES"):
            return Sort.SHOW_VARIABLES
        case "RUN", "SCRIPT":
            return Sort.RUN_SCRIPT
        case _:
            return Sort.STATEMENT


def _emits(tokens: tuple[Token, ...]) -> bool:
    words = [token.word for token in tokens]
    return any(
        word == "EMIT" and following in ("CHANGES", "FINAL") for word, following in itertools.pairwise(words)
    )


def assigned(part: Part, variables: Mapping[str, str]) -> tuple[str, str]:
    """Name and value of SET and DEFINE. Raises SqlError."""
    tokens = with_variables(list(part.tokens), variables)
    name_is = Kind.TEXT if part.sort is Sort.SET else Kind.WORD
    kinds = [token.kind for token in tokens[1:]]
    if kinds != [name_is, Kind.SIGN, Kind.TEXT] or tokens[2].text != "=":
        name = "'name'" if part.sort is Sort.SET else "name"
        raise SqlError(f"{part.word} is not complete", part.at, f"write {part.word} {name} = 'value';")
    return tokens[1].text, tokens[3].text


def set_of_terminal(part: Part) -> tuple[str, str]:
    """Name and value of SET CLI. Raises SqlError."""
    words = part.text.split()
    if len(words) != 4:
        raise SqlError("SET CLI is not complete", part.at, "write SET CLI name value;")
    return words[2], words[3].strip("'")


def named(part: Part, variables: Mapping[str, str]) -> str | None:
    """The name that UNSET, UNDEFINE and RUN SCRIPT have; None for ALL. Raises SqlError."""
    tokens = with_variables(list(part.tokens), variables)
    begin = 2 if part.sort is Sort.RUN_SCRIPT else 1
    if len(tokens) == begin + 1:
        token = tokens[begin]
        if part.sort is Sort.UNSET and token.word == "ALL":
            return None
        if token.kind is (Kind.WORD if part.sort is Sort.UNDEFINE else Kind.TEXT):
            return token.text
    what = {Sort.UNSET: "UNSET 'name'", Sort.UNDEFINE: "UNDEFINE name"}.get(part.sort, "RUN SCRIPT 'file'")
    raise SqlError(f"{part.word} is not complete", part.at, f"write {what};")
