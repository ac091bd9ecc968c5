"""The plans of pull queries that were asked before, by the shape of their texts or by the texts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_statement
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.plan.statement_plan import RunQuery
from ottla.sql.rows.pulling import PullPlan
from ottla.sql.rows.shapes import Shape, marked, shape_of, with_given

MAX_KEPT_PLANS: Final = 1_000


class PullPlans:
    """Plans are kept for as long as the catalogue is the same one; the last MAX_KEPT_PLANS of each kind."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._by_shape: OrderedDict[str, PullPlan | None] = OrderedDict()
        """None: texts of the shape have plans of their own."""
        self._by_text: OrderedDict[str, PullPlan] = OrderedDict()

    def find(self, text: str, catalog: Catalog) -> PullPlan | None:
        """The plan of a text, if one of its shape is kept."""
        if catalog is not self._catalog:
            return None
        shape = shape_of(text)
        if shape is not None:
            plan = self._by_shape.get(shape.text)
            if plan is not None:
                self._by_shape.move_to_end(shape.text)
                return plan.asked(shape.constants)
        return self._by_text.get(text)

    def keep(self, text: str, query: QueryPlan, catalog: Catalog, functions: Functions) -> PullPlan:
        """The plan of a bound query, which is kept."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._by_shape.clear()
            self._by_text.clear()
        shape = shape_of(text)
        if shape is not None and shape.text not in self._by_shape:
            general = _general(shape, catalog, functions)
            self._by_shape[shape.text] = general
            _bound(self._by_shape)
            if general is not None:
                return general.asked(shape.constants)
        plan = PullPlan.of(query, functions)
        if "${" not in text:  # what a variable stands for may be another thing the next time
            self._by_text[text] = plan
            _bound(self._by_text)
        return plan


def _general(shape: Shape, catalog: Catalog, functions: Functions) -> PullPlan | None:
    """The plan for all texts of a shape; None where constants are more than values."""
    try:
        plan = Binder(catalog, functions).bind(parse_statement(marked(shape)))
    except SqlError:
        return None
    if not isinstance(plan, RunQuery):
        return None
    query = with_given(plan.query, shape)
    return None if query is None else PullPlan.of(query, functions)


def _bound(kept: OrderedDict[str, PullPlan] | OrderedDict[str, PullPlan | None]) -> None:
    if len(kept) > MAX_KEPT_PLANS:
        kept.popitem(last=False)
