"""Bound expressions: every part has its type, every name is resolved, casts stand where they happen.

`BoundOperation` is an operator of the language: + - * / % || = <> < <= > >= AND OR NOT NEGATE, IS NULL and
its kin, BETWEEN, IN, LIKE, CASE (condition, result, …, otherwise), CAST, FIELD (struct, name), SUBSCRIPT,
ARRAY, MAP (key, value, …), STRUCT (values in the order of the type's fields).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.sql.language.expressions import LiteralValue
from ottla.sql.types.sql_types import SqlType, text_literal

GROUP = "$group"
"""The source of columns that a grouping makes: its keys, its aggregates."""
EXPLODED = "$exploded"
"""The source of columns that table functions make."""


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column of a source, by the source's alias."""

    source: str
    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class BoundLiteral:
    """A constant."""

    value: LiteralValue
    type: SqlType


@dataclass(frozen=True, slots=True)
class BoundOperation:
    """An operator of the language."""

    operator: str
    operands: tuple[Bound, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A function's call. signature: the text of the variant's."""

    function: str
    signature: str
    arguments: tuple[Bound, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class BoundLambda:
    """A lambda; its type has the parameters' types and the result's."""

    parameters: tuple[str, ...]
    body: Bound
    type: SqlType


@dataclass(frozen=True, slots=True)
class BoundParameter:
    """A parameter within a lambda's body."""

    name: str
    type: SqlType


Bound = BoundColumn | BoundLiteral | BoundOperation | BoundCall | BoundLambda | BoundParameter


def parts(of: Bound) -> tuple[Bound, ...]:
    """The expressions right within one."""
    match of:
        case BoundOperation():
            return of.operands
        case BoundCall():
            return of.arguments
        case BoundLambda():
            return (of.body,)
        case _:
            return ()


def within(of: Bound) -> Iterator[Bound]:
    """The expression and all within it."""
    yield of
    for each in parts(of):
        yield from within(each)


def columns_of(of: Bound) -> list[BoundColumn]:
    """All columns that an expression reads."""
    return [each for each in within(of) if isinstance(each, BoundColumn)]


def in_words(of: Bound) -> str:
    """The expression as SQL, for EXPLAIN."""
    match of:
        case BoundColumn():
            return of.name if of.source.startswith("$") else f"{of.source}.{of.name}"
        case BoundLiteral(value=None):
            return "NULL"
        case BoundLiteral(value=bool() as value):
            return str(value).upper()
        case BoundLiteral(value=str() as value):
            return text_literal(value)
        case BoundLiteral():
            return str(of.value)
        case BoundParameter():
            return of.name
        case BoundLambda():
            return f"({', '.join(of.parameters)}) => {in_words(of.body)}"
        case BoundCall():
            return f"{of.function}({', '.join(map(in_words, of.arguments))})"
    texts = [in_words(each) for each in of.operands]
    match of.operator:
        case "CAST":
            return f"CAST({texts[0]} AS {of.type})"
        case "NOT" | "NEGATE":
            return f"({'NOT ' if of.operator == 'NOT' else '-'}{texts[0]})"
        case "IS NULL" | "IS NOT NULL":
            return f"({texts[0]} {of.operator})"
        case "FIELD":
            return f"{texts[0]}->{texts[1].strip(chr(39))}"
        case "SUBSCRIPT":
            return f"{texts[0]}[{texts[1]}]"
        case "ARRAY":
            return f"ARRAY[{', '.join(texts)}]"
        case "CASE":
            whens = "".join(f" WHEN {a} THEN {b}" for a, b in zip(texts[:-1:2], texts[1:-1:2], strict=True))
            return f"CASE{whens} ELSE {texts[-1]} END"
        case "BETWEEN":
            return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})"
        case "IN":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "MAP" | "STRUCT":
            return f"{of.operator}({', '.join(texts)})"
        case _:
            return "(" + f" {of.operator} ".join(texts) + ")"
