"""How the rows of an answer's columns become JSON, kept for columns that are asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.sql.rows.json_values import to_client
from ottla.sql.rows.port import OutColumn, OutRow

MAX_FORMS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Form:
    """How rows of some columns are told."""

    columns: tuple[OutColumn, ...]
    names: list[str]
    types: list[str]
    converters: list[Callable[[Any], Any]]

    def cells(self, row: OutRow) -> list[Any]:
        """A row's values for JSON."""
        return [convert(value) for convert, value in zip(self.converters, row.values, strict=True)]


_forms: OrderedDict[int, Form] = OrderedDict()
"""By the identity of columns: those of a plan that is kept are one object for all of its questions."""


def form_of(columns: tuple[OutColumn, ...]) -> Form:
    """The form of these columns."""
    found = _forms.get(id(columns))
    if found is None or found.columns is not columns:
        types = [str(each.type) for each in columns]
        converters = [to_client(each.type) for each in columns]
        found = _forms[id(columns)] = Form(columns, [each.name for each in columns], types, converters)
        if len(_forms) > MAX_FORMS:
            _forms.popitem(last=False)
    return found
