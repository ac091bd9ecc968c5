"""Files of tests, as ksqlDB's run-ksql-test reads them: tests begin with `--@test: name`, statements follow.

    --@test: orders are counted
    CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', value_format='JSON');
    CREATE TABLE counts AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
    INSERT INTO orders (rowtime, id, item) VALUES (10, 1, 'pen');
    ASSERT VALUES counts (rowtime, item, n) VALUES (10, 'pen', 1);

`--@expected.error` and `--@expected.message` say that the test must end with an error; of the former only
that there is one counts, since the classes that it names are Java's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statement_parser import StatementParser
from ottla.sql.language.statements import CreateSource, Define, InsertValues, Statement, Undefine
from ottla.sql.language.token_stream import TokenStream
from ottla.sql.language.tokens import Kind, Token, with_variables
from ottla.sql.terminal.statements import Part, parts_of

_DIRECTIVE: Final = re.compile(r"^[ \t]*--[ \t]*@([a-z.]+)[ \t]*:?[ \t]*(.*?)[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class ScriptTest:
    """One test of a file. text: the whole file's, in which all places are; begin, end: of the test in it."""

    name: str
    text: str
    line: int
    begin: int
    end: int
    fails: bool = False
    message: str | None = None
    """What the error that must come has in its text."""


@dataclass(frozen=True, slots=True)
class Do:
    """A statement as it is."""

    part: Part
    statement: Statement


@dataclass(frozen=True, slots=True)
class AssertRow:
    """ASSERT VALUES: the next row of a source; ASSERT NULL VALUES (deletes): a row that deletes a key."""

    part: Part
    row: InsertValues
    deletes: bool


@dataclass(frozen=True, slots=True)
class AssertSource:
    """ASSERT STREAM and ASSERT TABLE: a source with these columns and properties is there."""

    part: Part
    source: CreateSource


Step = Do | AssertRow | AssertSource


def script_tests_of(text: str) -> list[ScriptTest]:
    """The tests of a file. Raises SqlError for statements before the first, and unknown directives."""
    found: list[ScriptTest] = []
    directives = list(_DIRECTIVE.finditer(text))
    starts = [each for each in directives if each[1] == "test"]
    first = starts[0].start() if starts else len(text)
    if parts_of(text[:first]):
        raise SqlError("a test begins with --@test: name", parts_of(text[:first])[0].at)
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        fails, message = False, None
        for each in directives:
            if not start.start() < each.start() < end:
                continue
            match each[1]:
                case "expected.error":
                    fails = True
                case "expected.message":
                    fails, message = True, each[2]
                case _:
                    raise SqlError(f"there is no directive @{each[1]}", _place(text, each.start()))
        line = text.count("\n", 0, start.start()) + 1
        found.append(ScriptTest(start[2] or f"line {line}", text, line, start.end(), end, fails, message))
    return found


def steps_of(test: ScriptTest) -> Iterator[Step]:
    """The steps of a test, each parsed when it is asked for. Raises SqlError."""
    # Blanks in place of what is before, so that places are those of the file.
    blank = re.sub(r"[^\n]", " ", test.text[: test.begin])
    variables: dict[str, str] = {}
    for part in parts_of(blank + test.text[test.begin : test.end]):
        step = _step(part, variables)
        match step:
            case Do(statement=Define(name=name, value=value)):
                variables[name] = value
            case Do(statement=Undefine(name=name)):
                variables.pop(name, None)
            case _:
                yield step


def _step(part: Part, variables: dict[str, str]) -> Step:
    tokens = with_variables(list(part.tokens), variables)
    words = [token.word for token in tokens[:3]]
    if words[:2] == ["ASSERT", "VALUES"]:
        return AssertRow(part, _row([*_insert(tokens[0], tokens[1]), *tokens[2:]]), deletes=False)
    if words == ["ASSERT", "NULL", "VALUES"]:
        keys = [_word(token, "VALUES") if token.word == "KEY" else token for token in tokens[3:]]
        return AssertRow(part, _row([*_insert(tokens[0], tokens[1]), *keys]), deletes=True)
    if words[:2] in (["ASSERT", "STREAM"], ["ASSERT", "TABLE"]):
        statement = _parsed([_word(tokens[0], "CREATE"), *tokens[1:]])
        if not isinstance(statement, CreateSource):
            raise SqlError("columns and WITH can be asserted, a query can't", part.at)
        return AssertSource(part, statement)
    return Do(part, _parsed(tokens))


def _row(tokens: list[Token]) -> InsertValues:
    statement = _parsed(tokens)
    if not isinstance(statement, InsertValues):
        raise SqlError("ASSERT takes values, a query can't be asserted", statement.at)
    return statement


def _parsed(tokens: list[Token]) -> Statement:
    last = tokens[-1]
    place = Position(last.end, last.at.line, last.at.column + last.end - last.at.offset)
    end = Token(Kind.END, "", place, last.end)
    return StatementParser(TokenStream([*tokens, end])).statement()


def _insert(first: Token, second: Token) -> list[Token]:
    return [_word(first, "INSERT"), _word(second, "INTO")]


def _word(token: Token, word: str) -> Token:
    """A token as another word, at the same place."""
    return Token(Kind.WORD, word, token.at, token.end, word)


def _place(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(offset, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)
