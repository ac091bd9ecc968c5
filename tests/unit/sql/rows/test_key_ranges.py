"""Ranges of keys in pull queries: what a stretch of the view's file gives is what the whole would."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_statement
from ottla.sql.plan.statement_plan import PutSource, RunQuery
from ottla.sql.rows.codecs import RowCodec
from ottla.sql.rows.figures import Reads
from ottla.sql.rows.pulling import SCAN, PullPlan
from ottla.streams.views.view_codec import TableKey
from ottla.streams.views.view_store import Change, ViewStore

FUNCTIONS = Functions()
INT, BIGINT = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
integers = st.integers(-3, 3) | st.integers(*INT) | st.sampled_from(INT)
texts = st.text("abÄ€😀'", max_size=3)


class FakeView:
    """The parts of a view that a scan reads."""

    def __init__(self, store: ViewStore, codec: RowCodec) -> None:
        self.store, self.codec, self.source = store, codec, codec.source


def table(key: str, settings: str = "") -> tuple[Catalog, RowCodec]:
    text = (
        f"CREATE TABLE t (id {key} PRIMARY KEY, n INT) WITH (kafka_topic='t', value_format='json'{settings});"
    )
    plan = Binder(Catalog(), FUNCTIONS).bind(parse_statement(text))
    assert isinstance(plan, PutSource)
    return Catalog().with_source(plan.source), RowCodec(plan.source)


def plan_of(catalog: Catalog, where: str) -> PullPlan:
    plan = Binder(catalog, FUNCTIONS).bind(parse_statement(f"SELECT id, n FROM t WHERE {where};"))
    assert isinstance(plan, RunQuery)
    return PullPlan.of(plan.query, FUNCTIONS)


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(("key", "values"), [("INT", integers), ("BIGINT", integers), ("STRING", texts)])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_ranges_give_what_the_filter_does(
    tmp_path_factory: pytest.TempPathFactory, key: str, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    catalog, codec = table(key)
    keys = data.draw(st.lists(values, max_size=12, unique=True))
    low, high = data.draw(values), data.draw(values)
    wheres = {
        f"id BETWEEN {literal(low)} AND {literal(high)}": lambda each: low <= each <= high,
        f"id > {literal(low)}": lambda each: each > low,
        f"{literal(high)} >= id AND n >= 0": lambda each: each <= high,
        f"id < {literal(high)} AND id >= {literal(low)} AND id <> {literal(low)}": lambda each: (
            low < each < high
        ),
    }
    store = ViewStore(tmp_path_factory.mktemp("view") / "view", "t", windowed=False)
    try:
        changes = {}
        for number, each in enumerate(keys):
            stored = codec.key_bytes({"ID": each})
            assert stored is not None
            changes[TableKey(stored, 0, 0)] = Change(b'{"N": %d}' % number, 5)
        store.apply(changes, {0: 1})
        view = FakeView(store, codec)
        for where, holds in wheres.items():
            plan = plan_of(catalog, where)
            assert plan.reads is Reads.RANGE
            plan.require_allowed({SCAN: "false"})
            pages, _ = plan.scan(view)  # type: ignore[arg-type]
            found = [row.values[0] for page in pages for row in page]
            assert len(found) == len(set(found))
            assert set(found) == {each for each in keys if holds(each)}, where
    finally:
        store.close()


def test_only_the_stretch_is_read(tmp_path: Path) -> None:
    catalog, _ = table("STRING")
    store = ViewStore(tmp_path / "view", "t", windowed=False)
    rows = {TableKey(b"k%04d" % number, 0, 0): Change(b'{"N": 1}', 5) for number in range(3_000)}
    store.apply(rows, {0: 1})
    read: list[str] = []
    with store.snapshot() as snapshot:
        snapshot._connection.set_trace_callback(read.append)
        pages = list(snapshot.pages(100, b"k0100", b"k0199"))
    assert sum(map(len, pages)) == 100
    plan = " ".join(str(row) for row in _explained(store, read[0]))
    assert "SEARCH" in plan and "SCAN" not in plan
    assert plan_of(catalog, "id >= 'k0100' AND id <= 'k0199'").bounds.between is not None
    store.close()


def _explained(store: ViewStore, text: str) -> list[object]:
    with store.snapshot() as snapshot:
        return list(snapshot._connection.execute(f"EXPLAIN QUERY PLAN {text}"))


@pytest.mark.parametrize(
    ("key", "settings", "where"),
    [
        ("DOUBLE", "", "id > 1.5e0"),
        ("INT", ", key_format='json'", "id > 1"),
        ("STRING", ", key_format='delimited'", "id > 'a'"),
        ("INT", "", "id > 1 OR n = 2"),
        ("INT", "", "id + 1 > 1"),
        ("INT", "", "id > 1.5"),
    ],
)
def test_other_keys_and_filters_read_the_whole(key: str, settings: str, where: str) -> None:
    catalog, _ = table(key, settings)
    plan = plan_of(catalog, where)
    assert plan.reads is Reads.TABLE
    with pytest.raises(SqlError, match="reads the whole"):
        plan.require_allowed({SCAN: "false"})
