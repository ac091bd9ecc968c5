"""Rows become records and rows again; filters tell their keys; selections are as the evaluator has them."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Column, Source, WindowedKeys
from ottla.sql.functions.registry import Functions
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import Role, SourceKind, WindowKind
from ottla.sql.plan.statement_plan import RunQuery, applied
from ottla.sql.rows.bounds import bounds_of
from ottla.sql.rows.codecs import BadRecord, KafkaRecord, RowCodec
from ottla.sql.rows.json_values import timestamp_text, to_client
from ottla.sql.rows.pulling import PullPlan
from ottla.sql.rows.selecting import Selection
from ottla.sql.types.sql_types import Base, SqlType, parsed_type

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(20, 4)": st.decimals(-(10**15), 10**15, places=4),
    "STRING": TEXTS,
    "BYTES": st.binary(max_size=20),
    "DATE": st.integers(-100_000, 100_000),
    "TIME": st.integers(0, 86_399_999),
    "TIMESTAMP": st.integers(-(2**53), 2**53),
    "ARRAY<BIGINT>": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
    "MAP<STRING, STRING>": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=4),
    "STRUCT<A INTEGER, B STRING>": st.fixed_dictionaries({"A": st.integers(0, 9), "B": st.none() | TEXTS}),
}


def source(columns: dict[str, str], keys: dict[str, str], **others: Any) -> Source:
    made = [Column(name, parsed_type(of), Role.KEY) for name, of in keys.items()]
    made += [Column(name, parsed_type(of)) for name, of in columns.items()]
    return Source("S", SourceKind.STREAM, tuple(made), "topic", **others)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["JSON", "DELIMITED"]))
def test_a_row_comes_back_as_it_was(data: st.DataObject, form: str) -> None:
    types = list(VALUES) if form == "JSON" else [each for each in VALUES if "<" not in each]
    chosen = data.draw(st.lists(st.sampled_from(types), min_size=1, max_size=6))
    columns = {f"C{number}": of for number, of in enumerate(chosen)}
    codec = RowCodec(source(columns, {"K": "BIGINT"}, value_format=form))
    row = {name: data.draw(st.none() | VALUES[of]) for name, of in columns.items()}
    if form == "DELIMITED":  # an empty text is NULL there, and a line has no further one
        row = {
            n: None if v == "" or (isinstance(v, str) and set(v) & set("\r\n\0")) else v
            for n, v in row.items()
        }
        row = {n: None if isinstance(v, bytes) else v for n, v in row.items()}
    key = data.draw(st.integers(-(2**63), 2**63 - 1))
    record = KafkaRecord(codec.key_bytes({"K": key}), codec.value_bytes(row), (), 5, 1, 7)
    found = codec.row(record)
    assert found == {**row, "K": key, "ROWTIME": 5, "ROWPARTITION": 1, "ROWOFFSET": 7}


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.text(max_size=5))
def test_windows_are_behind_the_key(start: int, length: int, key: str) -> None:
    text = key.encode("utf-8", "replace")
    for windowed, data, end in (
        (WindowedKeys(WindowKind.TUMBLING, 60_000), text + start.to_bytes(8, "big"), start + 60_000),
        (
            WindowedKeys(WindowKind.SESSION),
            text + (start + length).to_bytes(8, "big") + start.to_bytes(8, "big"),
            start + length,
        ),
    ):
        codec = RowCodec(source({"N": "BIGINT"}, {"K": "STRING"}, windowed=windowed))
        found = codec.row(KafkaRecord(data, b'{"N":1}', (), 0, 0, 0))
        assert found is not None
        assert (found["K"], found["WINDOWSTART"], found["WINDOWEND"]) == (text.decode(), start, end)


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ("INTEGER", "2147483648"),
        ("INTEGER", '"x"'),
        ("BOOLEAN", "1"),
        ("ARRAY<INTEGER>", "{}"),
        ("BYTES", '"?"'),
    ],
)
def test_a_record_that_does_not_fit_is_told_with_its_place(of: str, text: str) -> None:
    codec = RowCodec(source({"C": of}, {}))
    with pytest.raises(BadRecord, match="topic-3 at offset 9"):
        codec.row(KafkaRecord(None, f'{{"C": {text}}}'.encode(), (), 0, 3, 9))
    for broken in (b"{", b"[]", b"\xff"):
        with pytest.raises(BadRecord):
            codec.row(KafkaRecord(None, broken, (), 0, 3, 9))


def planned(script: str) -> RunQuery:
    catalog = Catalog()
    plan: Any = None
    for parsed in parse_script(script):
        plan = Binder(catalog).bind(parsed.statement)
        catalog = applied(plan, catalog)
    assert isinstance(plan, RunQuery)
    return plan


TABLE = (
    "CREATE TABLE t (a STRING PRIMARY KEY, b INT PRIMARY KEY, v INT) "
    "WITH (kafka_topic='t', key_format='json', value_format='json', partitions=1);"
)


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("a = 'x' AND b = 1", [("x", 1)]),
        ("1 = b AND 'x' = a AND v > 5", [("x", 1)]),
        ("a IN ('x', 'y') AND b IN (1, 2)", [("x", 1), ("x", 2), ("y", 1), ("y", 2)]),
        ("a IN ('x', 'y') AND a = 'y' AND b = 3", [("y", 3)]),
        ("a = 'x' AND a = 'y' AND b = 3", []),
        ("a = 'x'", None),
        ("a = 'x' OR b = 1", None),
        ("a > 'x' AND b = 1", None),
        ("v = 1", None),
    ],
)
def test_a_filter_tells_the_keys_that_it_can_hold_for(where: str, keys: list[tuple[str, int]] | None) -> None:
    plan = planned(f"{TABLE} SELECT * FROM t WHERE {where};")
    found = bounds_of(plan.query.where, plan.query.source.source).keys
    assert (None if found is None else [tuple(each.values()) for each in found]) == keys


def test_bounds_never_leave_out_a_row_that_the_filter_lets_through() -> None:
    dice = random.Random()
    atoms = [
        "a = 'x'",
        "a IN ('x', 'y')",
        "b = 1",
        "b IN (1, 2)",
        "v > 1",
        "b > 0",
        "a <> 'y'",
        "NOT (b = 2)",
    ]
    rows = [
        {"A": a, "B": b, "V": v, "ROWTIME": 0} for a in ("x", "y", "z") for b in (1, 2, 3) for v in (1, 2)
    ]
    for _ in range(200):
        where = dice.choice(atoms)
        for _ in range(dice.randint(0, 4)):
            where = f"({where} {dice.choice(['AND', 'AND', 'OR'])} {dice.choice(atoms)})"
        plan = PullPlan.of(planned(f"{TABLE} SELECT * FROM t WHERE {where};").query, Functions())
        if plan.bounds.keys is None:
            continue
        keys = [(each["A"], each["B"]) for each in plan.bounds.keys]
        for row in rows:
            if list(plan.selection.rows({**row, "ROWPARTITION": 0, "ROWOFFSET": 0})):
                assert (row["A"], row["B"]) in keys, (where, row)


def test_a_selection_filters_projects_and_explodes() -> None:
    plan = planned(
        "CREATE STREAM s (k INT KEY, xs ARRAY<INT>, t STRING) "
        "WITH (kafka_topic='s', value_format='json', partitions=1);"
        "SELECT k, EXPLODE(xs) AS x, UCASE(t) || '!' AS t FROM s WHERE k > 1 EMIT CHANGES;"
    )
    selection = Selection(plan.query, Functions())
    row = {"K": 2, "XS": [1, None, 3], "T": "a", "ROWTIME": 0, "ROWPARTITION": 0, "ROWOFFSET": 0}
    assert [each.values for each in selection.rows(row)] == [(2, 1, "A!"), (2, None, "A!"), (2, 3, "A!")]
    assert list(selection.rows({**row, "K": 1})) == []
    assert list(selection.rows({**row, "XS": []})) == []
    assert [each.name for each in selection.columns] == ["K", "X", "T"]


def test_a_tables_deleted_row_has_its_key_alone() -> None:
    plan = planned(f"{TABLE} SELECT b, v, a FROM t EMIT CHANGES;")
    selection = Selection(plan.query, Functions())
    row = {"A": "x", "B": 1, "V": None, "ROWTIME": 0, "ROWPARTITION": 0, "ROWOFFSET": 0}
    (found,) = selection.rows(row)
    assert found.tombstone
    assert found.values == (1, None, "x")


def test_values_are_answered_as_ksqldb_does() -> None:
    def shown(text: str, value: Any) -> Any:
        return orjson.loads(orjson.dumps(to_client(parsed_type(text))(value)))

    assert shown("DATE", 0) == "1970-01-01"
    assert shown("TIME", 45_296_789) == "12:34:56.789"
    assert shown("TIMESTAMP", -1) == "1969-12-31T23:59:59.999"
    assert shown("DECIMAL(6, 2)", Decimal("1.50")) == 1.5
    assert shown("BYTES", b"\xbe\xef") == "vu8="
    assert shown("MAP<STRING, DATE>", {"a": 1, "b": None}) == {"a": "1970-01-02", "b": None}
    assert to_client(SqlType(Base.STRING))(None) is None
    assert timestamp_text(0) == "1970-01-01T00:00:00.000"


@given(st.integers(-(2**40), 2**40), st.sampled_from(["BIGINT", "TIMESTAMP", "STRING"]), st.booleans())
def test_a_row_has_the_time_that_its_column_tells(time_ms: int, of: str, in_key: bool) -> None:
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSX" if of == "STRING" else None
    told = f"{timestamp_text(time_ms)}Z" if of == "STRING" else time_ms
    columns, keys = ({"N": "INTEGER"}, {"T": of}) if in_key else ({"T": of, "N": "INTEGER"}, {"K": "BIGINT"})
    codec = RowCodec(
        source(columns, keys, key_format="JSON", value_format="JSON", timestamp="T", timestamp_format=pattern)
    )
    row = {"T": told, "N": 1, "K": 2}
    key, value = codec.key_bytes(row), codec.value_bytes(row)
    assert key is not None and value is not None
    found = codec.row(KafkaRecord(key, value, (), 5, 0, 0))
    assert found is not None and found["ROWTIME"] == time_ms
    assert codec.stored_row(key, value, 5)["ROWTIME"] == time_ms


def test_a_row_without_its_time_is_none_and_a_deletion_keeps_the_records() -> None:
    columns = (Column("K", parsed_type("BIGINT"), Role.PRIMARY_KEY), Column("T", parsed_type("BIGINT")))
    codec = RowCodec(Source("S", SourceKind.TABLE, columns, "topic", value_format="JSON", timestamp="T"))
    key = codec.key_bytes({"K": 1})
    deleted = codec.row(KafkaRecord(key, None, (), 5, 0, 0))
    assert deleted is not None and deleted["ROWTIME"] == 5
    with pytest.raises(BadRecord, match="T is NULL: the record has no time"):
        codec.row(KafkaRecord(key, b"{}", (), 5, 0, 0))
