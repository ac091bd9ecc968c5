"""Forms that Debezium is not asked about: unknown types, and placeholders of each kind of array."""

from __future__ import annotations

import datetime

import pytest

from ottla.connect.cdc.core.column_form import ABSENT
from ottla.connect.cdc.core.decimals import DecimalMode
from ottla.connect.cdc.core.temporal import TimePrecision
from ottla.connect.cdc.postgres.column_forms import BinaryMode, FormOptions, HstoreMode, column_form
from ottla.connect.cdc.postgres.types import PostgresType, TypeKind, TypeRegistry, numeric_scale
from ottla.connect.data.schema import Moment, Type

NAMES = ("box", "text", "bytea", "int4", "float8", "bool", "date", "numeric", "hstore", "timestamp", "uuid")
TYPES = TypeRegistry(
    {
        **{number: PostgresType(number, name, "s", TypeKind.BASE) for number, name in enumerate(NAMES, 1)},
        **{
            100 + number: PostgresType(100 + number, f"_{name}", "s", TypeKind.BASE, True, number)
            for number, name in enumerate(NAMES, 1)
        },
        200: PostgresType(200, "short", "s", TypeKind.DOMAIN, base=201, base_modifier=-1),
        201: PostgresType(201, "shorter", "s", TypeKind.DOMAIN, base=8, base_modifier=(5 << 16) + 2 + 4),
        202: PostgresType(202, "_short", "s", TypeKind.BASE, True, 200),
    }
)


def number(name: str) -> int:
    return 100 + number(name[1:]) if name.startswith("_") else NAMES.index(name) + 1


def test_unknown_types_are_left_out_or_come_as_their_texts_bytes() -> None:
    assert column_form(TYPES, number("box"), -1, FormOptions()) is None
    assert column_form(TYPES, 999, -1, FormOptions()) is None
    asked = FormOptions(include_unknown=True)
    form = column_form(TYPES, number("box"), -1, asked)
    assert form is not None and form.convert("(1,1),(0,0)") == b"(1,1),(0,0)"
    array = column_form(TYPES, number("_box"), -1, asked)
    assert array is not None and array.convert('{"(1,1)"}') == [b"(1,1)"]
    texts = column_form(TYPES, number("box"), -1, FormOptions(include_unknown=True, binaries=BinaryMode.HEX))
    assert texts is not None and texts.convert("az") == "617a"


def test_a_domain_has_the_digits_of_the_domain_below_it() -> None:
    form = column_form(TYPES, 200, -1, FormOptions())
    assert form is not None and form.schema.parameters == {"scale": "2", "connect.decimal.precision": "5"}
    assert column_form(TYPES, 202, -1, FormOptions()) is None


def test_scales_may_be_negative() -> None:
    assert numeric_scale((5 << 16) + (-2 & 0x7FF) + 4) == -2
    assert numeric_scale(-1) == 0


@pytest.mark.parametrize(
    ("name", "placeholder"),
    [
        ("text", "x~"),
        ("bytea", b"x~"),
        ("hstore", '{"x~":"x~"}'),
        ("_text", ["x~"]),
        ("_bytea", [b"x~"]),
        ("_int4", [120, 126]),
        ("_float8", [120.0, 126.0]),
        ("_date", [120, 126]),
        ("_bool", ABSENT),
        ("numeric", ABSENT),
    ],
)
def test_what_stands_for_values_that_were_not_sent(name: str, placeholder: object) -> None:
    form = column_form(TYPES, number(name), -1, FormOptions(placeholder="x~"))
    assert form is not None and form.unavailable == placeholder


def test_placeholders_have_the_types_of_their_schemas() -> None:
    options = FormOptions(
        DecimalMode.STRING,
        TimePrecision.CONNECT,
        HstoreMode.MAP,
        binaries=BinaryMode.BASE64,
        placeholder="x~",
    )
    found = {
        name: column_form(TYPES, number(name), -1, options)
        for name in ("_date", "_numeric", "hstore", "bytea")
    }
    told = {name: form.unavailable for name, form in found.items() if form is not None}
    day_ms = datetime.timedelta(days=1) // datetime.timedelta(milliseconds=1)
    assert told["_date"] == [Moment(120 * day_ms), Moment(126 * day_ms)]
    assert told["_numeric"] == ["x~"]
    assert told["hstore"] == {"x~": "x~"}
    assert told["bytea"] == "x~"
    bytes_form = found["bytea"]
    assert bytes_form is not None and bytes_form.schema.type is Type.STRING
