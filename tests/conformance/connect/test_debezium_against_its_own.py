"""ExtractNewRecordState and EventRouter give what Debezium's own classes give, for random change events."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.data.building import OPTIONAL, REQUIRED, struct_schema
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.plugins.configuring import configured
from ottla.connect.transforms.debezium.outbox import EventRouter
from ottla.connect.transforms.debezium.unwrap import ExtractNewRecordState
from support.connect.random_values import RandomValues
from support.java import java_tools
from support.java.connect_oracle import ConnectOracle, RefusedByJava, connect_oracle, tell_record

pytestmark = [pytest.mark.java, pytest.mark.slow]

JARS = Path(java_tools.__file__).with_name("debezium-3.6.1.jars.lock")
SOURCE = struct_schema(
    (("table", REQUIRED[Type.STRING]), ("ts_ms", REQUIRED[Type.INT64]), ("db", OPTIONAL[Type.STRING]))
)
TRANSACTION = struct_schema(
    (("id", REQUIRED[Type.STRING]), ("total_order", REQUIRED[Type.INT64])), optional=True
)
# Not an array: Debezium keeps the text then, but gives it the schema of the array.
PAYLOADS = (
    None,
    "",
    " ",
    "text",
    '{"a":1,"b":{"c":[1,2],"d":null}}',
    '{"a":5000000000,"x":1.5,"l":[]}',
    "{",
)


@pytest.fixture(scope="module")
def debezium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectOracle]:
    with connect_oracle(tmp_path_factory.mktemp("debezium-oracle"), JARS) as running:
        yield running


def event(source: random.Random, row: Schema, before: Any, after: Any, operation: str) -> Record:
    fields = (("before", row), ("after", row), ("source", SOURCE), ("transaction", TRANSACTION))
    schema = struct_schema(
        (*fields, ("op", REQUIRED[Type.STRING]), ("ts_ms", OPTIONAL[Type.INT64])), name="s.t.Envelope"
    )
    values = {
        "before": before,
        "after": after,
        "source": Struct(SOURCE, {"table": "t", "ts_ms": 9, "db": source.choice((None, "d"))}),
        "transaction": source.choice((None, Struct(TRANSACTION, {"id": "x", "total_order": 3}))),
        "op": operation,
        "ts_ms": source.choice((None, 42)),
    }
    key = struct_schema((("a", OPTIONAL[Type.INT32]), ("k", REQUIRED[Type.INT32])), name="s.t.Key")
    names = Schema(Type.ARRAY, values=REQUIRED[Type.STRING])
    headers = (Header("drop", ["a", "id"], names),) if source.random() < 0.5 else ()
    value = Struct(schema, values)
    return Record("s.t", 1, Struct(key, {"a": 1, "k": 2}), key, value, schema, 5, headers)


def unwrap_event(source: random.Random, values: RandomValues) -> Record:
    row = replace(values.struct_schema(1, optional=True), name="s.t.Value")
    kind = source.random()
    if kind < 0.1:
        return Record("s.t", 1, 1, REQUIRED[Type.INT32], None, None, 5, (), 7)
    if kind < 0.15:
        return values.record()
    before, after = (values.value(row, null=0.0) for _ in range(2))
    operation = source.choice("curdt")
    if operation in "dt":
        after = None
    if operation in "crt":
        before = None
    return event(source, row, before, after, operation)


def unwrap_config(source: random.Random) -> dict[str, str]:
    modes = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
    config = {"delete.tombstone.handling.mode": source.choice(modes)}
    for name, texts in (
        ("add.fields", ("op", "table,source.db", "transaction.id,op:OP", "total_order,none")),
        ("add.headers", ("op", "source.ts_ms:when,db", "ts_ms")),
        ("add.fields.prefix", ("x.",)),
        ("drop.fields.header.name", ("drop",)),
        ("drop.fields.from.key", ("true",)),
        ("drop.fields.keep.schema.compatible", ("false",)),
        ("replace.null.with.default", ("true", "false")),
    ):
        if source.random() < 0.4:
            config[name] = source.choice(texts)
    return config


def outbox_event(source: random.Random, values: RandomValues) -> Record:
    micros = Schema(Type.INT64, optional=True, name="io.debezium.time.MicroTimestamp", version=1)
    row = struct_schema(
        (
            ("id", REQUIRED[Type.STRING]),
            ("aggregateid", REQUIRED[Type.INT64]),
            ("aggregatetype", REQUIRED[Type.STRING]),
            ("type", OPTIONAL[Type.STRING]),
            ("payload", OPTIONAL[Type.STRING]),
            ("part", REQUIRED[Type.INT32]),
            ("version", REQUIRED[Type.INT32]),
            ("at", micros),
        ),
        optional=True,
        name=source.choice(("s.outbox.Value", "Value", None)),
    )
    after = Struct(
        row,
        {
            "id": "e",
            "aggregateid": 7,
            "aggregatetype": source.choice(("Order", "a-b")),
            "type": source.choice((None, "Created")),
            "payload": source.choice(PAYLOADS),
            "part": 3,
            "version": source.randint(1, 2),
            "at": source.choice((None, 1_700_000_000_123_456)),
        },
    )
    if source.random() < 0.1:
        return replace(values.record(), offset=None)
    return event(source, row, None, after, source.choice("ccccrud"))


def outbox_config(source: random.Random) -> dict[str, str]:
    config: dict[str, str] = {}
    for name, texts in (
        (
            "table.fields.additional.placement",
            (
                "type:header",
                "type:header:kind,part:partition",
                "type:envelope,part:envelope:p",
                "none:envelope",
            ),
        ),
        ("table.field.additional.missing", ("ignore",)),
        ("table.field.event.timestamp", ("at", "aggregateid", "none")),
        ("table.field.event.key", ("type",)),
        ("table.field.event.schema.version", ("version",)),
        ("table.expand.json.payload", ("true",)),
        ("table.json.payload.null.behavior", ("optional_bytes",)),
        ("route.tombstone.on.empty.payload", ("true",)),
        ("route.topic.replacement", ("${routedByValue}.x",)),
        ("table.op.invalid.behavior", ("warn", "error", "fatal")),
    ):
        if source.random() < 0.35:
            config[name] = source.choice(texts)
    return config


@pytest.mark.parametrize(
    ("name", "plugin", "made", "config_of"),
    [
        ("ExtractNewRecordState", ExtractNewRecordState, unwrap_event, unwrap_config),
        ("outbox.EventRouter", EventRouter, outbox_event, outbox_config),
    ],
)
@pytest.mark.parametrize("configs", [20, pytest.param(500, marks=pytest.mark.long)])
def test_a_transform_gives_what_debeziums_own_gives(
    configs: int, name: str, plugin: Any, made: Any, config_of: Any, debezium: ConnectOracle
) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    for _ in range(configs):
        config = config_of(source)
        for _ in range(12):
            record = made(source, values)
            # A fresh object for each record: Debezium keeps schemas by less than they depend on.
            transform = plugin(configured(plugin.TABLE, config))
            told = f"seed {seed} config {config} record {tell_record(record)}"
            try:
                expected = debezium.transformed(f"io.debezium.transforms.{name}", config, record)
            except RefusedByJava as refused:
                debezium.forget()
                if refused.kind == "NullPointerException":
                    continue  # by accident: fields to drop from a tombstone, an event without its table
                with pytest.raises(DataError):
                    transform.apply(record)
                    pytest.fail(f"Java refuses: {refused.kind} {refused}; {told}")
                continue
            debezium.forget()
            try:
                found = transform.apply(record)
            except DataError as problem:
                pytest.fail(f"only ours refuses: {problem}; {told}")
            assert (None if found is None else tell_record(found)) == expected, told
