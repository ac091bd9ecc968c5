"""Debezium's ExtractNewRecordState and EventRouter."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.plugins.configuring import configured
from ottla.connect.transforms.debezium.outbox import EventRouter
from ottla.connect.transforms.debezium.unwrap import ExtractNewRecordState

ROW = struct_schema(
    (("id", REQUIRED[Type.INT32]), ("name", OPTIONAL[Type.STRING])), optional=True, name="s.Value"
)
SOURCE = struct_schema((("table", REQUIRED[Type.STRING]), ("ts_ms", REQUIRED[Type.INT64])))
OUTBOX = struct_schema(
    (
        ("id", REQUIRED[Type.STRING]),
        ("aggregateid", REQUIRED[Type.STRING]),
        ("aggregatetype", REQUIRED[Type.STRING]),
        ("type", REQUIRED[Type.STRING]),
        ("payload", OPTIONAL[Type.STRING]),
        ("part", OPTIONAL[Type.INT32]),
    ),
    optional=True,
    name="s.outbox.Value",
)


def envelope(row: Schema) -> Schema:
    return struct_schema(
        (
            ("before", row),
            ("after", row),
            ("source", SOURCE),
            ("op", REQUIRED[Type.STRING]),
            ("ts_ms", OPTIONAL[Type.INT64]),
        ),
        name="s.Envelope",
    )


def change(
    row: Schema, operation: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> Record:
    schema = envelope(row)
    values = {
        "before": None if before is None else Struct(row, before),
        "after": None if after is None else Struct(row, after),
        "source": Struct(SOURCE, {"table": "customers", "ts_ms": 9}),
        "op": operation,
        "ts_ms": 42,
    }
    return Record("server.customers", 0, 1, REQUIRED[Type.INT32], Struct(schema, values), schema, 5)


def unwrapped(record: Record, **config: str) -> Record | None:
    texts = {name.replace("_", "."): text for name, text in config.items()}
    return ExtractNewRecordState(configured(ExtractNewRecordState.TABLE, texts)).apply(record)


def test_the_row_takes_the_place_of_its_envelope() -> None:
    found = unwrapped(
        change(ROW, "u", {"id": 1}, {"id": 1, "name": "x"}), add_fields="op,table,source.ts_ms:WHEN"
    )
    assert found is not None
    assert [each.name for each in found.value.schema.fields] == ["id", "name", "__op", "__table", "__WHEN"]
    assert [found.value.get(name) for name in ("id", "name", "__op", "__table", "__WHEN")] == [
        1,
        "x",
        "u",
        "customers",
        9,
    ]


@pytest.mark.parametrize(
    ("mode", "of_delete", "of_tombstone"),
    [
        ("drop", "dropped", "dropped"),
        ("tombstone", "tombstone", "dropped"),
        ("rewrite", "rewritten", "dropped"),
        ("rewrite-with-tombstone", "rewritten", "tombstone"),
        ("delete-to-tombstone", "tombstone", "dropped"),
    ],
)
def test_deletes_are_handled_as_configured(mode: str, of_delete: str, of_tombstone: str) -> None:
    def fate(record: Record | None) -> str:
        if record is None:
            return "dropped"
        if record.value is None:
            return "tombstone"
        assert record.value.get("__deleted") == "true"
        return "rewritten"

    deleted = change(ROW, "d", {"id": 1, "name": "x"}, None)
    tombstone = Record("server.customers", 0, 1, REQUIRED[Type.INT32])
    config = {"delete_tombstone_handling_mode": mode}
    assert fate(unwrapped(deleted, **config)) == of_delete
    assert fate(unwrapped(tombstone, **config)) == of_tombstone


def test_other_records_pass_and_headers_are_added_to_events() -> None:
    other = Record("heartbeat", 0, value=Struct(SOURCE, {"table": "t", "ts_ms": 1}), value_schema=SOURCE)
    assert unwrapped(other) is other
    found = unwrapped(change(ROW, "c", None, {"id": 1}), add_headers="op", route_by_field="name")
    assert found is not None
    assert found.topic == "server.customers"
    assert found.headers == (Header("__op", "c", OPTIONAL[Type.STRING]),)


def routed(record: Record, **config: str) -> Record | None:
    texts = {name.replace("_", "."): text for name, text in config.items()}
    return EventRouter(configured(EventRouter.TABLE, texts)).apply(record)


EVENT = {
    "id": "e1",
    "aggregateid": "7",
    "aggregatetype": "Order",
    "type": "Created",
    "payload": '{"a":1,"b":[1.5]}',
    "part": 3,
}


def test_an_event_goes_to_the_topic_of_its_aggregate() -> None:
    found = routed(
        change(OUTBOX, "c", None, EVENT), table_fields_additional_placement="type:header:kind,part:partition"
    )
    assert found is not None
    assert (found.topic, found.partition, found.key, found.timestamp_ms) == ("outbox.event.Order", 3, "7", 42)
    assert found.value == EVENT["payload"]
    assert [(each.name, each.value) for each in found.headers] == [("id", "e1"), ("kind", "Created")]


def test_a_json_payload_becomes_a_struct() -> None:
    found = routed(change(OUTBOX, "c", None, EVENT), table_expand_json_payload="true")
    assert found is not None
    assert found.value.get("a") == 1
    assert found.value.get("b") == [1.5]
    assert found.value_schema == found.value.schema


def test_fields_in_the_envelope_make_a_struct_of_payload_and_fields() -> None:
    found = routed(change(OUTBOX, "c", None, EVENT), table_fields_additional_placement="type:envelope")
    assert found is not None
    assert found.value.schema.name == "s.outbox.Order.Value"
    assert found.value.values == {"payload": EVENT["payload"], "type": "Created"}


def test_deletes_are_dropped_and_updates_are_refused_as_configured() -> None:
    assert routed(change(OUTBOX, "d", EVENT, None)) is None
    assert routed(change(OUTBOX, "u", EVENT, EVENT)) is None
    with pytest.raises(DataError, match="Unexpected update message"):
        routed(change(OUTBOX, "u", EVENT, EVENT), table_op_invalid_behavior="fatal")


def test_an_empty_payload_is_a_tombstone_where_that_is_configured() -> None:
    found = routed(
        change(OUTBOX, "c", None, EVENT | {"payload": " "}), route_tombstone_on_empty_payload="true"
    )
    assert found is not None
    assert (found.value, found.value_schema) == (None, None)
