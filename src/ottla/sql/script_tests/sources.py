"""ASSERT STREAM and ASSERT TABLE: what a source must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.sql.binding.source_binder import bound_columns
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import CreateSource
from ottla.sql.script_tests.rows import Mismatch

_PROPERTIES: Mapping[str, Callable[[Source], object]] = {
    "KAFKA_TOPIC": lambda source: source.topic,
    "VALUE_FORMAT": lambda source: source.value_format,
    "KEY_FORMAT": lambda source: source.key_format,
    "FORMAT": lambda source: source.value_format,
    "PARTITIONS": lambda source: source.partitions,
    "REPLICAS": lambda source: source.replicas,
    "TIMESTAMP": lambda source: source.timestamp,
    "TIMESTAMP_FORMAT": lambda source: source.timestamp_format,
    "WRAP_SINGLE_VALUE": lambda source: source.wrap_single_value,
    "VALUE_DELIMITER": lambda source: source.value_delimiter,
    "RETENTION_MS": lambda source: source.retention_ms,
    "WINDOW_TYPE": lambda source: None if source.windowed is None else source.windowed.kind.value,
}
_IN_ANY_CASE = frozenset({"VALUE_FORMAT", "KEY_FORMAT", "FORMAT", "TIMESTAMP", "WINDOW_TYPE"})


def check_source(asserted: CreateSource, catalog: Catalog) -> None:
    """Raises Mismatch unless the catalogue has such a source; SqlError for what can't be asserted."""
    found = catalog.sources.get(asserted.name)
    kind = asserted.kind.value.lower()
    if found is None:
        raise Mismatch(f"there is no {kind} {asserted.name}")
    if found.kind is not asserted.kind:
        raise Mismatch(f"{found.name} is a {found.kind.value.lower()}")
    if asserted.columns:
        wanted = [str(each) for each in bound_columns(asserted.columns, asserted.kind, catalog)]
        actual = [str(each) for each in found.columns]
        if wanted != actual:
            expected_row, actual_row = {"COLUMNS": ", ".join(wanted)}, {"COLUMNS": ", ".join(actual)}
            raise Mismatch(f"the columns of {found.name} are others", ("COLUMNS",), expected_row, actual_row)
    for name, each in asserted.properties.items():
        of = _PROPERTIES.get(name.upper())
        if of is None:
            advice = "one of " + ", ".join(_PROPERTIES)
            raise SqlError(f"the property {name} can't be asserted", each.at, advice)
        actual_value, wanted_value = of(found), each.value
        if name.upper() in _IN_ANY_CASE and isinstance(wanted_value, str) and isinstance(actual_value, str):
            is_same = wanted_value.upper() == actual_value.upper()
        else:
            is_same = wanted_value == actual_value
        if not is_same:
            raise Mismatch(
                f"{name.upper()} of {found.name} is another one",
                (name.upper(),),
                {name.upper(): wanted_value},
                {name.upper(): actual_value},
            )
