"""Which tables are captured, and how their topics and schemas are named."""

from __future__ import annotations

import pytest

from ottla.connect.cdc.core.filters import (
    CaptureFilter,
    KeyColumns,
    NameFilter,
    one_at_most,
    split_expressions,
)
from ottla.connect.cdc.core.names import Adjustment, Names, adjusted, topic_name


def test_expressions_match_the_whole_name_in_any_case() -> None:
    taken = NameFilter.of(r"public\.orders, audit\..*", None)
    assert taken.takes("public.Orders") and taken.takes("audit.x")
    assert not taken.takes("public.orders2") and not taken.takes("my.audit.x")
    assert not NameFilter.of(None, "audit.*").takes("audit_log")
    assert NameFilter.of(None, None).takes("anything")


def test_a_comma_behind_a_backslash_is_part_of_its_expression() -> None:
    assert split_expressions(r"a{1\,2},b, ") == ["a{1,2}", "b"]
    with pytest.raises(ValueError, match=r"\("):
        NameFilter.of("(", None)


def test_the_databases_own_schemas_are_never_captured() -> None:
    found = CaptureFilter(never=frozenset({"pg_catalog"}))
    assert found.takes_table("public", "t") and not found.takes_table("pg_catalog", "pg_class")


def test_keys_of_some_tables_are_other_columns() -> None:
    keys = KeyColumns.of("public.a:x,y; (.*).b:z")
    assert keys.of_table("public.a") == ("x", "y")
    assert keys.of_table("other.b") == ("z",)
    assert keys.of_table("public.c") is None
    with pytest.raises(ValueError, match="table:column"):
        KeyColumns.of("public.a")


def test_two_lists_for_one_thing_are_refused() -> None:
    assert one_at_most((("a", "x"), ("b", None))) is None
    assert one_at_most((("a", "x"), ("b", "y"))) == "only one of a and b may be given"


def test_topics_have_only_characters_that_kafka_takes() -> None:
    names = Names("srv")
    assert names.table_topic("public", "orders") == "srv.public.orders"
    assert names.table_topic('Quoted " Schema', "Täble") == "srv.Quoted___Schema.T_ble"
    assert len(topic_name("x" * 300)) == 249
    assert topic_name("..") == "__"
    assert names.heartbeat_topic() == "__debezium-heartbeat.srv"
    assert names.transaction_topic() == "srv.transaction"


def test_names_for_avro() -> None:
    assert adjusted("1a-b.2c", Adjustment.AVRO) == "_1a_b.2c"
    assert adjusted("a-b", Adjustment.AVRO_UNICODE) == "a_u002db"
    assert adjusted("1a-b", Adjustment.NONE) == "1a-b"
