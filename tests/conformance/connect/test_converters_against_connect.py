"""Converters read and write what Connect's own read and write, for random schemas, values and bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.converters.primitives import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from ottla.connect.converters.simple_headers import SimpleHeaderConverter
from ottla.connect.data.schema import DataError, Schema, Type
from ottla.connect.data.values import parse_string
from support.connect.random_values import RandomValues
from support.java.connect_oracle import ConnectOracle, RefusedByJava, tell, tell_schema

pytestmark = [pytest.mark.java, pytest.mark.slow]

KAFKA = "org.apache.kafka.connect"
JSON = f"{KAFKA}.json.JsonConverter"
_PRIMITIVES: dict[str, Any] = {
    f"{KAFKA}.storage.StringConverter": StringConverter,
    f"{KAFKA}.converters.ByteArrayConverter": ByteArrayConverter,
    f"{KAFKA}.converters.BooleanConverter": BooleanConverter,
    f"{KAFKA}.converters.ShortConverter": ShortConverter,
    f"{KAFKA}.converters.IntegerConverter": IntegerConverter,
    f"{KAFKA}.converters.LongConverter": LongConverter,
    f"{KAFKA}.converters.FloatConverter": FloatConverter,
    f"{KAFKA}.converters.DoubleConverter": DoubleConverter,
}
_FRAGMENTS = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"',
    "1",
    "-0",
    "007",
    "1.5e3",
    "9" * 25,
    "null",
    "true",
    " ",
)
_LITERALS = (
    "1",
    "-7",
    "1.5",
    "a",
    '"',
    "\\",
    ":",
    ",",
    "{",
    "}",
    "[",
    "]",
    "null",
    "true",
    " ",
    "2026-01-31",
    "\t",
)


def json_config(source: random.Random) -> dict[str, str]:
    return {
        "schemas.enable": source.choice(("true", "false")),
        "decimal.format": source.choice(("BASE64", "numeric")),
        "replace.null.with.default": source.choice(("true", "false")),
    }


def asked(action: Callable[..., Any], *arguments: Any) -> tuple[Any, Exception | None]:
    """What a converter gives, or why it refuses."""
    try:
        return without_negative_zero(action(*arguments)), None
    except (DataError, RefusedByJava) as refused:
        return None, refused


def without_negative_zero(told: Any) -> Any:
    """Java's JSON reads -0.0 as 0.0; ours keeps the sign."""
    if told in (["f64", "-0.0"], ["f32", "-0.0"]):
        return [told[0], "0.0"]
    if isinstance(told, list | tuple):
        return type(told)(map(without_negative_zero, told))
    if isinstance(told, dict):
        return {name: without_negative_zero(each) for name, each in told.items()}
    return told


def read(converter: Any, data: bytes | None) -> tuple[Any, Any]:
    return told_pair(converter.to_connect("t", data))


def difference(ours: Any, java: Any) -> str:
    """The places where two told values differ."""
    if isinstance(ours, dict) and isinstance(java, dict) and ours.keys() == java.keys():
        return " ".join(difference(ours[name], java[name]) for name in ours if ours[name] != java[name])
    if isinstance(ours, list | tuple) and isinstance(java, list | tuple) and len(ours) == len(java):
        return " ".join(difference(*pair) for pair in zip(ours, java, strict=True) if pair[0] != pair[1])
    return f"<{ours!r} {java!r}>"


def check_same(ours: tuple[Any, Exception | None], java: tuple[Any, Exception | None], told: str) -> None:
    refusal = java[1]
    assert (ours[1] is None) == (refusal is None), f"{told}: ours {ours} Java's {java}"
    if isinstance(refusal, RefusedByJava):
        of_rules = refusal.kind == "DataException" and "serialization error" not in str(refusal)
        assert not of_rules or str(ours[1]) == str(refusal), told
    else:
        assert ours[0] == java[0], f"{difference(ours[0], java[0])} {told}: ours {ours[0]} Java's {java[0]}"


def parsed(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


@pytest.mark.parametrize("rounds", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_json_is_written_and_read_as_by_connect(rounds: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    for at in range(rounds):
        if at % 25 == 0:
            config = json_config(source)
            converter = JsonConverter()
            converter.configure(config, False)
        schema, value = values.side()
        told = f"seed {seed} {config} {tell_schema(schema)} {tell(value, schema)}"
        ours = asked(converter.from_connect, "t", schema, value)
        java = asked(oracle.data_of, JSON, config, schema, value)
        check_same((parsed(ours[0]), ours[1]), (parsed(java[0]), java[1]), told)
        if java[0] is None:
            continue
        for data in (ours[0], java[0]):
            found = asked(read, converter, data)
            check_same(found, asked(oracle.value_of, JSON, config, data), f"{told} {data!r}")


@pytest.mark.parametrize("rounds", [300, pytest.param(30_000, marks=pytest.mark.long)])
def test_damaged_json_is_read_or_refused_as_by_connect(rounds: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    for at in range(rounds):
        if at % 50 == 0:
            config = json_config(source)
            converter = JsonConverter()
            converter.configure(config, False)
        schema = values.schema(2)
        text, _ = asked(converter.from_connect, "t", schema, values.value(schema))
        if text is None:
            continue  # a default that is not to be written
        data = damaged(source, text)
        found = asked(read, converter, data)
        java = asked(oracle.value_of, JSON, config, data)
        check_same(found, java, f"seed {seed} {config} {data!r}")


def damaged(source: random.Random, data: bytes) -> bytes:
    """JSON with a few values, names or signs replaced."""
    node = json.loads(data)
    for _ in range(source.randint(1, 3)):
        node = changed(source, node)
    text = json.dumps(node)
    if source.random() < 0.3:
        at = source.randint(0, len(text))
        text = text[:at] + source.choice(_FRAGMENTS) + text[at + source.randint(0, 2) :]
    return text.encode()


def changed(source: random.Random, node: Any) -> Any:
    """The same JSON but for one place."""
    if isinstance(node, dict) and node and source.random() < 0.9:
        key = source.choice(list(node))
        if source.random() < 0.15:
            return {name: each for name, each in node.items() if name != key}
        return node | {key: changed(source, node[key])}
    if isinstance(node, list) and node and source.random() < 0.9:
        at = source.randrange(len(node))
        return [*node[:at], changed(source, node[at]), *node[at + 1 :]]
    return source.choice(
        (None, True, 5, -(1 << 40), 1 << 70, 2.5, 1e300, "x", "AAA=", [], [1, "a"], {}, {"a": 1})
    )


def read_text(text: str) -> tuple[Any, Any]:
    return told_pair(parse_string(text))


def told_pair(found: tuple[Schema | None, Any]) -> tuple[Any, Any]:
    schema, value = found
    return tell_schema(schema), tell(value, schema)


@pytest.mark.parametrize("name", sorted(_PRIMITIVES))
def test_single_values_are_written_and_read_as_by_connect(name: str, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    converter = _PRIMITIVES[name]()
    converter.configure({}, False)
    for _ in range(60):
        schema = values.scalar_schema(defaults=False)
        value = values.value(schema)
        if value is not None and (schema.name is not None or schema.type is Type.BYTES) and "String" in name:
            continue  # Java prints a date in words and bytes by their address
        told = f"seed {seed} {tell_schema(schema)} {tell(value, schema)}"
        check_same(
            asked(converter.from_connect, "t", schema, value),
            asked(oracle.data_of, name, {}, schema, value),
            told,
        )
        data = source.choice(
            (None, b"", b"\0", b"\1", source.randbytes(source.randint(0, 9)), source.randbytes(4))
        )
        check_same(
            asked(read, converter, data),
            asked(oracle.value_of, name, {}, data),
            f"seed {seed} {data!r}",
        )


@pytest.mark.parametrize("rounds", [300, pytest.param(30_000, marks=pytest.mark.long)])
def test_headers_are_written_and_read_as_by_connect(rounds: int, oracle: ConnectOracle) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    name = f"{KAFKA}.storage.SimpleHeaderConverter"
    converter = SimpleHeaderConverter()
    for _ in range(rounds):
        schema = values.schema(2, defaults=False)
        value = values.value(schema)
        told = f"seed {seed} {tell_schema(schema)} {tell(value, schema)}"
        if not isinstance(value, dict) or len(value) < 2:  # Java's HashMap has an order of its own
            check_same(
                asked(converter.from_connect, "t", schema, value),
                asked(oracle.data_of, name, {}, schema, value, "header-text"),
                told,
            )
        text = "".join(source.choice(_LITERALS) for _ in range(source.randint(0, 7)))
        check_same(
            asked(read_text, text),
            asked(oracle.parsed, text),
            f"seed {seed} {text!r}",
        )
