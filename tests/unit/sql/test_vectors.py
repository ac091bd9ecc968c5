# ruff: noqa: E501
"""Functions over batches: which they are, what they get, and that a row's result does not depend on its batch."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sql.functions.registry import FunctionError, Functions
from ottla.sql.functions.vectors import FAILED, VALUE, VectorKind, Vectors, arrow_type, vector_kind
from ottla.sql.lowering.evaluator import fitting
from ottla.sql.types.sql_types import SqlType, parsed_type

if TYPE_CHECKING:
    import pandas


def add(left: pd.Series, right: pd.Series) -> pd.Series:
    return left + right


def add_arrays(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.add_checked(left, right)


def shout(text: pandas.Series) -> pandas.Series:
    return text.str.upper()


def plain(value: int) -> int:
    return value


def mixed(left: pd.Series, right: int) -> pd.Series:
    return left + right


def test_annotations_say_what_a_function_takes() -> None:
    assert vector_kind(add) is VectorKind.PANDAS
    assert vector_kind(add_arrays) is VectorKind.ARROW
    assert vector_kind(shout) is VectorKind.PANDAS
    assert vector_kind(plain) is None
    assert vector_kind(lambda value: value) is None
    assert vector_kind(len) is None
    with pytest.raises(FunctionError, match="MIXED: a function over batches has pandas Series alone"):
        Functions().with_scalar("mixed", ["(INT, INT) -> INT"], mixed)
    with pytest.raises(FunctionError, match="takes no lambda"):
        Functions().with_scalar("x", ["(ARRAY<T>, (T) => U) -> ARRAY<U>"], add)


def batch(vectors: Vectors, types: list[str], returns: str, columns: list[list[Any]]) -> list[Any]:
    """Each row's result, "failed" where the function has none for it."""
    of, to = [parsed_type(each) for each in types], parsed_type(returns)
    arrays = [pa.array(column, arrow_type(each)) for column, each in zip(columns, of, strict=True)]
    found = vectors.of_batch(of, to, fitting(to), arrays)
    return ["failed" if row[FAILED] else _as_dict(row[VALUE], to) for row in found.to_pylist()]


def _as_dict(value: Any, of: SqlType) -> Any:
    return dict(value) if value is not None and of.base.value == "MAP" else value


def rows(vectors: Vectors, types: list[str], returns: str, columns: list[list[Any]]) -> list[Any]:
    """The same, row by row, as the evaluator has it."""
    of, to = [parsed_type(each) for each in types], parsed_type(returns)
    found = []
    for values in zip(*columns, strict=True):
        if not vectors.nulls and None in values:
            found.append(None)
            continue
        try:
            found.append(fitting(to)(vectors.of_row(of, to, values)))
        except Exception:
            found.append("failed")
    return found


numbers = st.none() | st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize("function", [add, add_arrays])
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8), st.booleans())
def test_a_rows_result_is_that_of_its_batch(
    function: Any, pairs: list[tuple[int | None, int | None]], nulls: bool
) -> None:
    kind = vector_kind(function)
    assert kind is not None
    columns = [list(each) for each in zip(*pairs, strict=True)]
    vectors = Vectors(kind, function, nulls)

    wide = batch(vectors, ["BIGINT", "BIGINT"], "BIGINT", columns)

    assert wide == rows(vectors, ["BIGINT", "BIGINT"], "BIGINT", columns)
    assert wide == [
        None if None in pair else sum(each for each in pair if each is not None) for pair in pairs
    ]


@given(st.lists(st.none() | st.text(max_size=4), min_size=1, max_size=6))
def test_texts(texts: list[str | None]) -> None:
    vectors = Vectors(VectorKind.PANDAS, shout, False)

    assert batch(vectors, ["STRING"], "STRING", [texts]) == [None if t is None else t.upper() for t in texts]
    assert rows(vectors, ["STRING"], "STRING", [texts]) == [None if t is None else t.upper() for t in texts]


CASES: list[tuple[str, str, list[Any], Any, list[Any]]] = [
    ("a result that does not fit", "INT", [2**31 - 1, 1], lambda s: s.astype("int64") + 1, ["failed", 2]),
    ("missing in pandas", "INT", [1, 2], lambda s: s.where(s > 1), [None, 2]),
    ("of another type", "INT", [1, 2], lambda s: s.map(lambda v: "x" if v == 1 else v), ["failed", 2]),
    ("a fraction", "INT", [1, 2], lambda s: s / 2, ["failed", 1]),
    ("NaN of a DOUBLE", "DOUBLE", [1.0, -1.0], lambda s: s.map(lambda v: v if v > 0 else float("inf")), [1.0, float("inf")]),
    ("decimals", "DECIMAL(4, 2)", [Decimal("1.10"), Decimal("9.99")], lambda s: s * 10, [Decimal("11.00"), Decimal("99.90")]),
    ("a decimal too long", "DECIMAL(4, 2)", [Decimal("50.00"), Decimal("1.00")], lambda s: s * 2, ["failed", Decimal("2.00")]),
    ("booleans", "BOOLEAN", [True, False], lambda s: ~s, [False, True]),
    ("bytes", "BYTES", [b"a", b""], lambda s: s + b"!", [b"a!", b"!"]),
    ("arrays", "ARRAY<INT>", [[1, None], []], lambda s: s.map(lambda v: [*v, 7]), [[1, None, 7], [7]]),
    ("maps", "MAP<STRING, INT>", [{"a": 1}, {}], lambda s: s.map(lambda v: {**v, "b": 2}), [{"a": 1, "b": 2}, {"b": 2}]),
    ("structs", "STRUCT<A INT, B STRING>", [{"A": 1, "B": "x"}, None], lambda s: s, [{"A": 1, "B": "x"}, None]),
    ("no text", "STRING", ["a", "b"], lambda s: s.map({"a": "\ud800", "b": "c"}), ["failed", "c"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "of", "values", "function", "expected"), CASES, ids=[each[0] for each in CASES]
)
def test_values_of_each_type(
    what: str, of: str, values: list[Any], function: Any, expected: list[Any]
) -> None:
    vectors = Vectors(VectorKind.PANDAS, function, False)

    assert batch(vectors, [of], of, [values]) == expected
    if what != "no text":  # the row evaluator gives it on: it is the format's to refuse
        assert rows(vectors, [of], of, [values]) == expected


def test_a_batch_that_raises_is_given_again_row_by_row() -> None:
    def picky(numbers: pd.Series) -> pd.Series:
        if (numbers == 3).any():
            raise ValueError("three")
        return numbers

    vectors = Vectors(VectorKind.PANDAS, picky, False)

    assert batch(vectors, ["INT"], "INT", [[1, 3, None, 4]]) == [1, "failed", None, 4]


def test_a_function_that_gives_too_little_gives_nothing() -> None:
    for wrong in (lambda s: s[:0], lambda s: 5):
        vectors = Vectors(VectorKind.PANDAS, wrong, False)

        assert batch(vectors, ["INT"], "INT", [[1, 2]]) == ["failed", "failed"]


def test_with_nulls_numbers_stay_whole() -> None:
    def filled(numbers: pd.Series) -> pd.Series:
        assert str(numbers.dtype) == "Int64"
        return numbers.fillna(2**53 + 1)

    vectors = Vectors(VectorKind.PANDAS, filled, True)

    columns = [[2**53 + 3, None]]
    assert batch(vectors, ["BIGINT"], "BIGINT", columns) == [2**53 + 3, 2**53 + 1]
    assert rows(vectors, ["BIGINT"], "BIGINT", columns) == [2**53 + 3, 2**53 + 1]
