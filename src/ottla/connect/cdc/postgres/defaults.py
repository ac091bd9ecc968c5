"""The default of a column's schema, out of the expression that pg_get_expr prints; no I/O.

As Debezium: literals are taken, an expression that has to be evaluated stands for an empty value of its type
(nextval(…) for 0), and types that it does not know have none.
"""

from __future__ import annotations

import decimal
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.connect.cdc.core.column_form import ColumnForm
from ottla.connect.cdc.postgres.types import PostgresType, TypeKind
from ottla.connect.data.schema import Struct

MAX_EXPRESSION_CHARACTERS: Final = 100_000
_LITERAL: Final = re.compile(r"'(.*?)'", re.DOTALL)
_FUNCTION: Final = re.compile(r"^[(]?[A-Za-z0-9_.]+\(.*\)", re.DOTALL)
_NOW: Final = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})
_NULL: Final = "NULL::"

_GENERATED: Final[Mapping[str, str]] = {
    "bit": "00",
    "varbit": "0",
    "bool": "f",
    "bpchar": "",
    "varchar": "",
    "text": "",
    "numeric": "0.0",
    "float4": "0.0",
    "float8": "0.0",
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "json": "{}",
    "jsonb": "{}",
    "xml": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "interval": "00:00:00",
}
"""The types that have defaults, and the text that stands for a value which is made for each row."""


def default_value(of: PostgresType, form: ColumnForm, expression: str | None) -> Any:
    """The default of a column, None for none."""
    if expression is None or len(expression) > MAX_EXPRESSION_CHARACTERS:
        return None
    if of.kind is TypeKind.ENUM:
        text = _enum_label(of, expression)
    elif of.name in _GENERATED:
        text = _text(expression, _GENERATED[of.name])
    else:
        return None
    if text is None:
        return None
    try:
        found = form.convert(_READ.get(of.name, str)(text.strip() if of.name in _TRIMMED else text))
    except (ValueError, ArithmeticError):
        return None
    # A struct can't be a default (KAFKA-12694).
    return None if isinstance(found, Struct) else found


def _text(expression: str, generated: str) -> str | None:
    if _FUNCTION.match(expression) or expression.lower() in _NOW:
        return generated
    if "'" in expression:
        found = _LITERAL.search(expression)
        return None if found is None else found.group(1)
    return None if expression.startswith(_NULL) else expression


def _enum_label(of: PostgresType, expression: str) -> str | None:
    literal, mark, cast = expression.rpartition("::")
    name = cast.rpartition(".")[2].strip('"')
    if not mark or name != of.name or not (literal.startswith("'") and literal.endswith("'")):
        return None
    return literal[1:-1]


def _boolean(text: str) -> str:
    return "t" if text.lower() in ("true", "t") else "f"


def _whole(text: str) -> str:
    return str(int(text))


def _number(text: str) -> str:
    return str(decimal.Decimal(text))


def _uuid(text: str) -> str:
    return str(uuid.UUID(text))


_READ: Final[Mapping[str, Callable[[str], str]]] = {
    "bool": _boolean,
    "int2": _whole,
    "int4": _whole,
    "int8": _whole,
    "numeric": _number,
    "uuid": _uuid,
}
_TRIMMED: Final = frozenset(_GENERATED) - {"bpchar", "varchar", "text", "json", "jsonb", "xml"}
