"""Expressions and their results: the cases of expressions.txt, one a line."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ottla.sql.binding.expression_binder import ExpressionBinder
from ottla.sql.binding.scope import Scope
from ottla.sql.catalog.sources import Column, Source
from ottla.sql.functions.function import ScalarFunction
from ottla.sql.functions.registry import BUILT_IN, Functions
from ottla.sql.language.parser import parse_expression
from ottla.sql.language.statements import SourceKind
from ottla.sql.lowering.evaluator import row_function
from ottla.sql.plan.bound import Bound
from ottla.sql.plan.query_plan import FromSource
from ottla.sql.types.sql_types import parsed_type

FILE = Path(__file__).parent / "expressions.txt"
CASES = [
    line.rpartition(" => ")[::2]
    for line in FILE.read_text().splitlines()
    if line and not line.startswith("#")
]
COLUMNS: dict[str, tuple[str, Any]] = {
    "I": ("INT", 7),
    "B": ("BIGINT", 10_000_000_000),
    "D": ("DOUBLE", 2.5),
    "DEC": ("DECIMAL(6, 2)", Decimal("12.34")),
    "S": ("STRING", "hello"),
    "NI": ("INT", None),
    "NS": ("STRING", None),
    "ND": ("DOUBLE", None),
    "A": ("ARRAY<INT>", [1, 2, 3]),
    "M": ("MAP<STRING, INT>", {"a": 1}),
    "R": ("STRUCT<X INT, Y STRING>", {"X": 1, "Y": "y"}),
    "T": ("TIMESTAMP", 1_633_954_719_446),
    "DAY": ("DATE", 18_911),
    "CLOCK": ("TIME", (13 * 60 + 25) * 60_000),
    "YES": ("BOOLEAN", True),
}
SOURCE = Source(
    "S", SourceKind.STREAM, tuple(Column(name, parsed_type(of)) for name, (of, _) in COLUMNS.items()), "s"
)


def bound(text: str) -> Bound:
    binder = ExpressionBinder(Scope([FromSource("S", SOURCE)]), Functions(), {})
    return binder.bind(parse_expression(text))


def value_of(text: str) -> Any:
    row = {name: value for name, (_, value) in COLUMNS.items()}
    return row_function(bound(text), lambda column: lambda row: row[column.name], Functions())(row)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0] for case in CASES])
def test_expression_has_its_documented_result(text: str, expected: str) -> None:
    found = value_of(text)

    wanted = json.loads(expected, parse_float=str)
    if isinstance(found, float):
        wanted_float = float(expected.replace("Infinity", "inf"))
        assert math.isnan(found) if math.isnan(wanted_float) else found == wanted_float
    elif isinstance(found, Decimal):
        assert str(found) == expected
    elif isinstance(found, bool) or found is None:
        assert found is wanted
    else:
        assert found == wanted and not isinstance(wanted, bool)


def test_every_scalar_function_has_a_case() -> None:
    text = FILE.read_text()

    scalars = [each.name for each in BUILT_IN.values() if isinstance(each, ScalarFunction)]

    assert [name for name in scalars if f"{name}(" not in text] == []
