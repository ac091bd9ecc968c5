"""Transforms and predicates give what Connect's own give, for random records and configurations."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.catalog import Kind, Plugin, installed_plugins
from ottla.connect.plugins.configuring import configured
from support.connect.random_configs import KAFKA, PREDICATES, transform_classes
from support.connect.random_values import RandomValues
from support.java.connect_oracle import ConnectOracle, RefusedByJava, tell_record

pytestmark = [pytest.mark.java, pytest.mark.slow]

RECORDS = 20
# What Java says by accident: a NullPointerException where a field is not there, an error without a rule.
_ACCIDENTS = ("NullPointerException", "ClassCastException", "IllegalArgumentException", "ArithmeticException")
MISSING = "Timestamp missing on record: "
_GENEROUS = ("Cannot list fields on non-struct type",)
"""Errors of SetSchemaMetadata for schemas that are no structs, which we allow."""


def record_has_schema(record: Record, name: str) -> bool:
    return (record.key_schema if name.endswith("$Key") else record.value_schema) is not None


def same_words(ours: str, java: str) -> bool:
    """Java prints whole records behind some errors, and reads weeks, which ours says that it can't."""
    return (
        ours == java
        or "can't be read here" in ours
        or (java.startswith(MISSING) and ours.startswith(MISSING))
    )


def flattens_ambiguously(record: Record, name: str, delimiter: str) -> bool:
    """Whether two values of a map get one name: Java keeps the last one in the order of a HashMap."""

    def names(value: object, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [path]
        paths = [(f"{path}{delimiter}{key}" if path else str(key), each) for key, each in value.items()]
        return [one for below, each in paths for one in names(each, below)]

    if "Flatten" not in name or record_has_schema(record, name):
        return False
    found = names(record.key if name.endswith("$Key") else record.value, "")
    return len(found) != len(set(found))


def plugin_of(name: str, kind: Kind) -> Plugin:
    found = installed_plugins().find(name, kind)
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(transform_classes()))
@pytest.mark.parametrize("configs", [8, pytest.param(300, marks=pytest.mark.long)])
def test_a_transform_gives_what_connects_own_gives(name: str, configs: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    plugin = plugin_of(name, Kind.TRANSFORMATION).load()
    seen: Counter[str] = Counter()
    for _ in range(configs):
        config = transform_classes()[name](source)
        transform = plugin(configured(plugin.TABLE, config))
        for _ in range(RECORDS):
            record = values.record()
            if flattens_ambiguously(record, name, config.get("delimiter", ".")):
                continue
            told = f"seed {seed} config {config} record {tell_record(record)}"
            try:
                expected = oracle.transformed(name, config, record)
            except RefusedByJava as refused:
                if "SetSchemaMetadata" in name and str(refused) in _GENEROUS:
                    continue
                with pytest.raises(DataError) as ours:
                    transform.apply(record)
                    pytest.fail(f"Java refuses: {refused.kind} {refused}; {told}")
                # Of several fields that can't be changed, Java names the first in the order of a HashMap.
                one_field = not any("," in text for text in config.values())
                if refused.kind not in _ACCIDENTS and (one_field or record_has_schema(record, name)):
                    assert same_words(str(ours.value), str(refused)), told
                seen["refused"] += 1
                continue
            try:
                found = transform.apply(record)
            except DataError as problem:
                pytest.fail(f"only ours refuses: {problem}; {told}")
            assert (None if found is None else tell_record(found)) == expected, told
            seen["changed" if found is not record else "same"] += 1
    assert seen["changed"] or "Filter" in name, seen


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_a_predicate_holds_where_connects_own_holds(name: str, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    class_name = f"{KAFKA}.predicates.{name}"
    plugin = plugin_of(class_name, Kind.PREDICATE).load()
    seen = set()
    for _ in range(10):
        config = PREDICATES[name](source)
        predicate = plugin(configured(plugin.TABLE, config))
        for _ in range(RECORDS):
            record = values.record()
            held = predicate.test(record)
            assert held is oracle.holds(class_name, config, record), f"seed {seed} {config} {record}"
            seen.add(held)
    assert seen == {True, False}
