"""Texts into statements: one after the other, since DEFINE changes what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.expression_parser import ExpressionParser
from ottla.sql.language.expressions import Expression, TypeText
from ottla.sql.language.statement_parser import StatementParser
from ottla.sql.language.statements import Define, Statement, Undefine
from ottla.sql.language.token_stream import TokenStream
from ottla.sql.language.tokens import Kind, Token, tokenize, with_variables


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement and its own text; positions in it are those of the whole script."""

    statement: Statement
    text: str


def parse_script(text: str, variables: Mapping[str, str] | None = None) -> Iterator[Parsed]:
    """The statements of a script, each parsed when it is asked for. Raises SqlError.

    `variables` holds from the beginning; DEFINE and UNDEFINE change them for the statements that follow.
    """
    defined = dict(variables or {})
    for tokens in _statements(tokenize(text)):
        end = tokens[-1]
        parser = StatementParser(TokenStream(with_variables(tokens, defined)))
        statement = parser.statement()
        match statement:
            case Define(name=name, value=value):
                defined[name] = value
            case Undefine(at=at, name=name):
                if name not in defined:
                    raise SqlError(f"the variable {name} is not defined", at)
                del defined[name]
        yield Parsed(statement, text[tokens[0].at.offset : end.at.offset].rstrip())


def parse_statement(text: str, variables: Mapping[str, str] | None = None) -> Statement:
    """The one statement of a text. Raises SqlError."""
    found = list(parse_script(text, variables))
    if len(found) != 1:
        raise SqlError(f"one statement is wanted, there are {len(found)}", START)
    return found[0].statement


def parse_expression(text: str) -> Expression:
    """One expression alone. Raises SqlError."""
    stream = TokenStream(tokenize(text))
    found = ExpressionParser(stream).expression()
    if stream.token.kind is not Kind.END:
        raise stream.wrong("the end of the expression")
    return found


def parse_type(text: str) -> TypeText:
    """One type alone. Raises SqlError."""
    stream = TokenStream(tokenize(text))
    found = ExpressionParser(stream).type()
    if stream.token.kind is not Kind.END:
        raise stream.wrong("the end of the type")
    return found


def _statements(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, with an end in place of its semicolon; empty statements are left out."""
    begin = 0
    for number, token in enumerate(tokens):
        if token.kind is Kind.END or (token.kind is Kind.SIGN and token.text == ";"):
            if number > begin:
                yield [*tokens[begin:number], Token(Kind.END, "", token.at, token.end)]
            begin = number + 1
