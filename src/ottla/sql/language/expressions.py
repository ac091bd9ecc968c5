"""Expressions as they are written, with the position of each part. Names without quotes are in upper case."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ottla.sql.language.errors import Position

LiteralValue = bool | int | float | Decimal | str | None


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type: its name, `(precision, scale)`, the element types of ARRAY and MAP, the fields of STRUCT."""

    at: Position
    name: str
    sizes: tuple[int, ...] = ()
    elements: tuple[TypeText, ...] = ()
    fields: tuple[tuple[str, TypeText], ...] = ()


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int for whole numbers, Decimal for 1.5, float for 1e3."""

    at: Position
    value: LiteralValue


@dataclass(frozen=True, slots=True)
class Name:
    """A column, `source.column`, or a lambda's parameter."""

    at: Position
    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`struct->field`."""

    at: Position
    of: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Subscript:
    """`array[1]`, `map['key']`."""

    at: Position
    of: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator over its operands: `+`, `=`, `AND`, `NOT`, `IS NULL`, `BETWEEN`, `IN`, `LIKE`…

    AND and OR have two operands or more.
    """

    at: Position
    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function's call. star: `COUNT(*)`."""

    at: Position
    name: str
    arguments: tuple[Expression, ...]
    star: bool = False


@dataclass(frozen=True, slots=True)
class Lambda:
    """`(x, y) => x + y`."""

    at: Position
    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class Case:
    """CASE with conditions; `CASE x WHEN 1` has the condition `x = 1`."""

    at: Position
    whens: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(x AS type)`."""

    at: Position
    of: Expression
    to: TypeText


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """`ARRAY[1, 2]`."""

    at: Position
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """`MAP('a' := 1)`."""

    at: Position
    pairs: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class StructOf:
    """`STRUCT(a := 1)`."""

    at: Position
    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class OrderText:
    """One of ORDER BY's expressions."""

    at: Position
    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class RowNumber:
    """`ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)`."""

    at: Position
    partition_by: tuple[Expression, ...]
    order_by: tuple[OrderText, ...]


Expression = (
    Literal
    | Name
    | FieldOf
    | Subscript
    | Operation
    | Call
    | Lambda
    | Case
    | Cast
    | ArrayOf
    | MapOf
    | StructOf
    | RowNumber
)
