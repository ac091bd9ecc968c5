"""Rows of a query as a pandas DataFrame: whole numbers stay whole beside NULL, decimals keep their digits."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ottla.config.errors import UserError
from ottla.sql.terminal.row_stream import Row, RowColumn

if TYPE_CHECKING:
    import pandas

_DTYPES: Final = {
    "INT": "Int32",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "datetime64[ms]",
}


def require_pandas() -> None:
    """Raises UserError where pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise UserError("--into gives a DataFrame, for which pandas is missing: pip install pandas")


def frame_of(columns: Sequence[RowColumn], rows: Sequence[Row]) -> pandas.DataFrame:
    """A DataFrame with the query's columns; two of one name stay two."""
    import pandas

    series = [
        _series([row[number] if number < len(row) else None for row in rows], column.type)
        for number, column in enumerate(columns)
    ]
    frame = pandas.concat(series, axis=1) if series else pandas.DataFrame()
    frame.columns = pandas.Index([column.name for column in columns])
    return frame


def _series(values: list[Any], type_name: str) -> pandas.Series[Any]:
    """A column by its SQL type; as it came where a value does not fit pandas' type."""
    import numpy
    import pandas

    kind = type_name.upper().partition("(")[0]
    try:
        match kind:
            case "DOUBLE":
                return pandas.Series(
                    [None if each is None else float(each) for each in values], dtype="float64"
                )
            case "DECIMAL":
                exact = [Decimal(each) if isinstance(each, int) else each for each in values]
                return pandas.Series(exact, dtype=object)
            case "TIMESTAMP":
                return pandas.Series(numpy.array(values, dtype=_DTYPES[kind]))
            case _ if kind in _DTYPES:
                return pandas.Series(values, dtype=_DTYPES[kind])
    except (ValueError, TypeError, OverflowError):
        pass
    return pandas.Series(values, dtype=object)
