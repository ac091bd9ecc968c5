"""Shapes of PostgreSQL's tables: out of the catalog, and out of the stream's relations; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.connect.cdc.core.column_rules import ColumnFacts, ColumnRules
from ottla.connect.cdc.core.filters import CaptureFilter, KeyColumns
from ottla.connect.cdc.core.names import Adjustment, Names, adjusted
from ottla.connect.cdc.core.tables import CapturedColumn, OnFailure, TableShape, table_shape
from ottla.connect.cdc.postgres.catalog import CatalogColumn, CatalogTable
from ottla.connect.cdc.postgres.column_forms import FormOptions, column_form
from ottla.connect.cdc.postgres.column_sizes import column_length, column_scale, is_text
from ottla.connect.cdc.postgres.defaults import default_value
from ottla.connect.cdc.postgres.pgoutput import Relation
from ottla.connect.cdc.postgres.source_block import SOURCE
from ottla.connect.cdc.postgres.types import PostgresType, TypeRegistry


@dataclass(frozen=True, slots=True)
class Shaping:
    """The settings that tables' shapes follow."""

    names: Names
    options: FormOptions = field(default_factory=FormOptions)
    filter: CaptureFilter = field(default_factory=CaptureFilter)
    keys: KeyColumns = field(default_factory=KeyColumns)
    on_failure: OnFailure = OnFailure.WARN
    rules: ColumnRules = field(default_factory=ColumnRules)
    fields: Adjustment = Adjustment.NONE
    """How the names of fields are made fit for Avro."""

    def of_catalog(
        self, registry: TypeRegistry, schema: str, table: str, described: CatalogTable
    ) -> TableShape:
        """The shape of a table as the catalog has it. Raises DataError."""
        return self._shape(registry, schema, table, described.columns, described.key)

    def of_relation(self, registry: TypeRegistry, relation: Relation, described: CatalogTable) -> TableShape:
        """The shape of a table as the stream has it. described: the catalog of now, which may be newer.

        The stream tells names and types; the catalog tells what may be null, defaults and keys, for the
        columns that it still has. Raises DataError.
        """
        now = {each.name: each for each in described.columns}
        columns = []
        for each in relation.columns:
            known = now.get(each.name)
            not_null = known is not None and known.not_null
            default = None if known is None else known.default
            columns.append(CatalogColumn(each.name, each.type_oid, each.modifier, not_null, default))
        names = {each.name for each in relation.columns}
        key = [name for name in described.key if name in names]
        return self._shape(registry, relation.namespace, relation.name, columns, key)

    def _shape(
        self,
        registry: TypeRegistry,
        schema: str,
        table: str,
        columns: Sequence[CatalogColumn],
        key: Sequence[str],
    ) -> TableShape:
        captured = [self._captured(registry, schema, table, each) for each in columns]
        asked = self.keys.of_table(f"{schema}.{table}")
        return table_shape(
            self.names,
            SOURCE,
            schema,
            table,
            captured,
            key if asked is None else asked,
            self.on_failure,
        )

    def _captured(
        self, registry: TypeRegistry, schema: str, table: str, column: CatalogColumn
    ) -> CapturedColumn:
        form = column_form(registry, column.type_oid, column.modifier, self.options)
        default = mapped = None
        root, modifier = registry.root(column.type_oid, column.modifier)
        if form is not None and root is not None:
            default = default_value(root, form, column.default)
            if self.rules.rules:
                facts = _facts(registry, schema, table, column, root, modifier)
                mapped = self.rules.apply(facts, form)
        return CapturedColumn(
            column.name,
            form,
            not column.not_null,
            default,
            self.filter.takes_column(schema, table, column.name),
            mapped,
            adjusted(column.name, self.fields),
        )


def _facts(
    registry: TypeRegistry,
    schema: str,
    table: str,
    column: CatalogColumn,
    root: PostgresType,
    modifier: int,
) -> ColumnFacts:
    of = registry.find(column.type_oid) or root
    # Of arrays, those of their elements.
    element = registry.find(root.element) if root.is_array else None
    root = root if element is None else element
    return ColumnFacts(
        f"{schema}.{table}",
        column.name,
        of.name,
        column_length(root, modifier),
        column_scale(root, modifier),
        is_text(root),
    )
