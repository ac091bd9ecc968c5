"""pandas objects that carry Arrow arrays through PySpark 4.0's pandas UDFs unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSeries(pd.Series):
    """A column that is an Arrow array and stays one."""

    @classmethod
    def of(cls, array: pa.Array) -> ArrowSeries:
        return cls(pd.arrays.ArrowExtensionArray(array), copy=False)

    def apply(self, *arguments: Any, **options: Any) -> Any:
        """Return the series itself. PySpark calls this to convert values to Arrow, which they already are."""
        return self

    def rename(self, *arguments: Any, **options: Any) -> Any:
        return self


class ArrowFrame(pd.DataFrame):
    """A frame whose columns are `ArrowSeries`."""

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        length = len(next(iter(arrays.values())))
        super().__init__(dict.fromkeys(arrays), index=range(length))  # type: ignore[call-arg]
        object.__setattr__(self, "_arrays", {name: ArrowSeries.of(array) for name, array in arrays.items()})

    def __getitem__(self, name: Any) -> Any:
        arrays: dict[str, ArrowSeries] = object.__getattribute__(self, "_arrays")
        return arrays[name]
