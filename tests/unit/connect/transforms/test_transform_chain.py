"""The chain of transforms that a connector's configuration names."""

from __future__ import annotations

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import Struct, Type
from ottla.connect.plugins.catalog import Catalog, Kind, installed_plugins
from ottla.connect.transforms.chain import TransformChain, TransformError

KAFKA = "org.apache.kafka.connect.transforms"
SCHEMA = struct_schema((("a", REQUIRED[Type.INT32]), ("b", OPTIONAL[Type.STRING])))
RECORD = Record("a-b", 3, None, None, Struct(SCHEMA, {"a": 1, "b": "x"}), SCHEMA, 5, (Header("h", 1),), 7)
PREDICATE = {
    "predicates": "p",
    "predicates.p.type": f"{KAFKA}.predicates.TopicNameMatches",
    "predicates.p.pattern": "a-.*",
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return installed_plugins()


def stage(alias: str, name: str, **settings: str) -> dict[str, str]:
    texts = {key.replace("_", "."): text for key, text in settings.items()}
    return {f"transforms.{alias}.type": f"{KAFKA}.{name}"} | {
        f"transforms.{alias}.{key}": text for key, text in texts.items()
    }


def test_stages_change_a_record_in_the_order_of_their_aliases(catalog: Catalog) -> None:
    config = {"transforms": "two, one"}
    config |= stage("one", "MaskField$Value", fields="static")
    config |= stage("two", "InsertField$Value", static_field="static", static_value="text")
    changed = TransformChain.of(config, catalog).apply(RECORD)
    assert changed is not None
    assert changed.value.get("static") == ""
    assert (changed.headers, changed.offset, changed.timestamp_ms) == (RECORD.headers, 7, 5)


@pytest.mark.parametrize(("negate", "dropped"), [("false", True), ("true", False)])
def test_a_predicate_says_for_which_records_a_transform_is(
    negate: str, dropped: bool, catalog: Catalog
) -> None:
    config = {"transforms": "f"} | PREDICATE | stage("f", "Filter", predicate="p", negate=negate)
    assert (TransformChain.of(config, catalog).apply(RECORD) is None) is dropped


def test_no_transforms_leave_a_record_as_it_is(catalog: Catalog) -> None:
    chain = TransformChain.of({"name": "c"}, catalog)
    assert not chain
    assert chain.apply(RECORD) is RECORD


def test_the_error_names_the_failing_stage_and_the_record(catalog: Catalog) -> None:
    config = {"transforms": "k"} | stage("k", "ValueToKey", fields="missing")
    with pytest.raises(TransformError) as failed:
        TransformChain.of(config, catalog).apply(RECORD)
    assert failed.value.alias == "k"
    assert failed.value.class_name == f"{KAFKA}.ValueToKey"
    assert str(failed.value) == (
        f"transform k ({KAFKA}.ValueToKey) of a record of the topic a-b, partition 3, offset 7: "
        "Field does not exist: missing"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"transforms": "x"},
            'Missing required configuration "transforms.x.type" which has no default value.',
        ),
        (
            {"transforms": "x", "transforms.x.type": "com.example.No"},
            "Invalid value com.example.No for configuration transforms.x.type: Class com.example.No could "
            "not be found.",
        ),
        (
            {"transforms": "x,x"},
            "Invalid value [x, x] for configuration transforms: Duplicate alias provided.",
        ),
        (
            {"transforms": "x"} | stage("x", "RegexRouter", replacement="y"),
            'transforms.x: Missing required configuration "regex" which has no default value.',
        ),
        (
            {"transforms": "x"} | stage("x", "Filter", negate="true"),
            "Config 'transforms.x.negate' was provided but there is no config 'transforms.x.predicate' "
            "defining a predicate to be negated.",
        ),
        (
            {"transforms": "x"} | stage("x", "Cast$Value", spec="a:decimal"),
            "transforms.x: Invalid value a:decimal for configuration spec: Invalid type found in casting "
            "spec: decimal",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_setting(
    config: dict[str, str], message: str, catalog: Catalog
) -> None:
    with pytest.raises(ConfigError) as refused:
        TransformChain.of(config, catalog)
    assert str(refused.value) == message


def test_every_plugin_has_a_table_and_a_version(catalog: Catalog) -> None:
    kinds = (Kind.TRANSFORMATION, Kind.PREDICATE, Kind.CONVERTER, Kind.HEADER_CONVERTER)
    plugins = [each for each in catalog.plugins if each.kind in kinds]
    assert len(plugins) >= 50
    for plugin in plugins:
        assert plugin.load().TABLE.settings is not None
        assert plugin.load().VERSION


def test_an_offset_is_known_for_records_of_sinks_alone(catalog: Catalog) -> None:
    config = {"transforms": "o"} | stage("o", "InsertField$Value", offset_field="o")
    chain = TransformChain.of(config, catalog)
    changed = chain.apply(RECORD)
    assert changed is not None
    assert changed.value.get("o") == 7
    with pytest.raises(TransformError, match="Only SinkRecord supported"):
        chain.apply(Record("t", value=RECORD.value, value_schema=SCHEMA))
