"""JsonConverter beside the comparison with Connect's own: kept schemas, exact numbers, refusals."""

from __future__ import annotations

import decimal

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.building import OPTIONAL, REQUIRED, decimal_schema, struct_schema
from ottla.connect.data.schema import DataError, Struct, Type

SCHEMA = struct_schema((("a", REQUIRED[Type.INT64]), ("n", decimal_schema(30, optional=True))))


def configured(**config: str) -> JsonConverter:
    converter = JsonConverter()
    converter.configure({name.replace("_", "."): text for name, text in config.items()}, False)
    return converter


def test_a_schema_that_was_read_before_is_the_same_object() -> None:
    converter = configured()
    data = converter.from_connect("t", SCHEMA, Struct(SCHEMA, {"a": 1}))
    assert data is not None
    first, _ = converter.to_connect("t", data)
    again, value = converter.to_connect("t", data.replace(b'"a":1', b'"a":2'))
    spaced, _ = converter.to_connect("t", b" " + data)
    assert first is again is spaced
    assert first == SCHEMA
    assert value.get("a") == 2


def test_a_third_field_behind_a_known_schema_is_refused() -> None:
    converter = configured()
    data = converter.from_connect("t", SCHEMA, Struct(SCHEMA, {"a": 1}))
    assert data is not None
    converter.to_connect("t", data)
    with pytest.raises(DataError, match="may not contain additional fields"):
        converter.to_connect("t", data[:-1] + b',"more":{}}')


def test_numeric_decimals_keep_all_their_digits() -> None:
    converter = configured(decimal_format="NUMERIC")
    number = decimal.Decimal("12345678901234567890.123456789012345678901234567890")
    data = converter.from_connect("t", SCHEMA, Struct(SCHEMA, {"a": 1, "n": number}))
    assert data is not None
    assert str(number).encode() in data
    for _ in range(2):
        assert converter.to_connect("t", data)[1].get("n") == number


def test_one_schema_for_all_records_comes_from_the_configuration() -> None:
    content = '{"type":"struct","fields":[{"field":"a","type":"string","optional":true}]}'
    schema, value = configured(schema_content=content).to_connect("t", b'{"a":"x"}')
    assert schema == struct_schema((("a", OPTIONAL[Type.STRING]),))
    assert value.get("a") == "x"


def test_the_kept_schemas_are_bounded() -> None:
    converter = configured(schemas_cache_size="3")
    for number in range(20):
        schema = struct_schema(((f"f{number}", REQUIRED[Type.INT32]),))
        data = converter.from_connect("t", schema, Struct(schema, {f"f{number}": number}))
        assert converter.to_connect("t", data)[0] == schema
    assert len(converter._schemas) == 3
    assert len(converter._writers) == 3


@pytest.mark.parametrize("depth", [900, 100_000])
def test_json_that_is_nested_too_deep_is_refused(depth: int) -> None:
    converter = configured(schemas_enable="false")
    try:
        converter.to_connect("t", b"[" * depth + b"]" * depth)
    except DataError:
        return
    assert depth < 1_000


def test_wrong_settings_are_refused_with_their_names() -> None:
    with pytest.raises(ConfigError, match=r"decimal\.format"):
        configured(decimal_format="ROMAN")
    with pytest.raises(ConfigError, match=r"schemas\.enable"):
        configured(schemas_enable="perhaps")


def test_a_decimal_default_keeps_its_digits_beside_an_equal_one() -> None:
    made = configured(decimal_format="numeric")
    for digits in ("933122896.210", "933122896.21", "1234567890123456789.0123456789012345678"):
        decimal_schema = (
            '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,'
            f'"parameters":{{"scale":"3"}},"default":{digits},"field":"a"}}'
        )
        data = f'{{"schema":{{"type":"struct","fields":[{decimal_schema}]}},"payload":{{"a":{digits}}}}}'
        for _ in range(2):
            schema, value = made.to_connect("t", data.encode())
            assert schema is not None
            assert str(schema.fields[0].schema.default) == str(value.values["a"]) == digits


def test_a_default_that_reads_as_null_is_refused_where_a_value_is_required() -> None:
    data = b'{"schema":{"type":"string","default":2.5},"payload":"a"}'
    with pytest.raises(DataError, match="Invalid default value"):
        configured().to_connect("t", data)
    schema, value = configured().to_connect("t", data.replace(b'"default"', b'"optional":true,"default"'))
    assert (schema is not None, value) == (True, "a")


def test_a_required_field_is_not_null_by_its_type_even_with_a_default() -> None:
    field = '{"type":"bytes","default":"aaaa","field":"a"}'
    schema = f'{{"type":"struct","fields":[{field}]}}'
    with pytest.raises(DataError, match="null used for required"):
        configured().to_connect("t", f'{{"schema":{schema},"payload":{{"a":1}}}}'.encode())
