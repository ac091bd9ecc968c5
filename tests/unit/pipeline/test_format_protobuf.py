"""Protobuf messages as columns and back, without a Spark."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from ottla.pipeline.formats.format import FormatError
from ottla.pipeline.formats.framed import spark_arrow_type
from ottla.pipeline.formats.protobuf import _message, _write

PROTO = """
syntax = "proto3";
package lab;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Room {
  message Reading { double value = 1; google.protobuf.Timestamp at = 2; }
  message Nothing {}
  enum Kind { LAB = 0; HALL = 1; }
  string name = 1;
  optional int32 floor = 2;
  Kind kind = 3;
  repeated Reading readings = 4;
  map<string, Reading> last = 5;
  map<bool, uint64> seen = 6;
  oneof door { string key = 7; Nothing open = 8; }
  google.protobuf.StringValue note = 9;
  repeated bytes raw = 10;
  Reading first = 11;
}
"""


def test_columns_have_sparks_types_and_nulls_are_where_presence_is() -> None:
    room = _message(PROTO, None)
    empty, full = room.message_class(), room.message_class()
    filled: Any = full
    filled.name, filled.floor, filled.kind = "a", 0, 7
    filled.open.SetInParent()
    filled.readings.add(value=float("inf"))
    filled.last["x"].value = 1.5
    filled.seen[True] = 2**64 - 1
    filled.note.value = ""
    filled.raw.append(b"\xff")
    filled.first.at.seconds = -1

    column = room.columns([empty, None, full], [None] * 3)

    assert column.type == spark_arrow_type(room.shape.spark)
    first, missing, last = column.to_pylist()
    assert missing is None
    assert first == {
        "name": "",
        "floor": None,
        "kind": "LAB",
        "readings": [],
        "last": [],
        "seen": [],
        "key": None,
        "open": None,
        "note": None,
        "raw": [],
        "first": None,
    }
    assert (last["floor"], last["kind"], last["open"], last["note"]) == (0, "7", True, "")
    assert last["readings"] == [{"value": float("inf"), "at": None}]
    assert last["last"] == [("x", {"value": 1.5, "at": None})]
    assert last["seen"] == [(True, Decimal(2**64 - 1))]
    assert last["first"]["at"].timestamp() == -1


def test_what_is_written_is_read() -> None:
    value = {
        "name": "a",
        "floor": 3,
        "kind": "HALL",
        "readings": [{"value": "NaN", "at": 1_500_000}],
        "last": {"x": {"value": 1.5}},
        "seen": {"true": "18446744073709551615"},
        "key": None,
        "open": True,
        "note": "n",
        "raw": ["/w=="],
        "first": None,
    }
    room = _message(PROTO, "lab.Room")

    (payload,) = _write(room, 5, [json.dumps(value)], "protobuf")
    assert payload is not None and payload[:6] == b"\0\0\0\0\5\0"
    read: Any = room.message_class()
    read.ParseFromString(payload[6:])

    assert (read.floor, read.kind, read.WhichOneof("door"), read.note.value) == (3, 1, "open", "n")
    assert read.readings[0].at.seconds == 1 and read.readings[0].at.nanos == 500_000_000
    assert read.seen[True] == 2**64 - 1 and list(read.raw) == [b"\xff"] and not read.HasField("first")


def test_a_nested_message_has_its_index_path() -> None:
    (payload,) = _write(_message(PROTO, "lab.Room.Reading"), 5, ['{"value": 0.0}'], "protobuf")
    assert payload == b"\0\0\0\0\5\4\0\0"


@pytest.mark.parametrize(
    ("text", "message", "said"),
    [
        ('syntax = "proto3"; message A { A a = 1; }', None, "contains itself"),
        ('syntax = "proto3"; message A {}', "B", "no message B"),
        ("message", None, "is not a valid PROTOBUF schema"),
    ],
)
def test_schemas_without_columns_are_refused(text: str, message: str | None, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        _message(text, message)


def test_what_does_not_fit_is_not_written() -> None:
    for bad in ('{"floor": 3000000000}', '{"kind": "BARN"}', '{"raw": [null]}', '{"name": 5}'):
        with pytest.raises(FormatError, match="can't be written as protobuf"):
            _write(_message(PROTO, None), 5, [bad], "protobuf")


def test_a_time_that_spark_has_no_place_for_is_its_records_fault() -> None:
    room = _message(PROTO, "lab.Room.Reading")
    good, bad = room.message_class(), room.message_class()
    odd: Any = bad
    odd.at.seconds = 2**62
    errors: list[str | None] = [None, None]

    values = room.columns([good, bad], errors).to_pylist()

    assert values[0] is not None and values[1] is None
    assert errors[0] is None and errors[1]
