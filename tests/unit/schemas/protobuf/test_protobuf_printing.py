"""Descriptors as text: each construct in our layout, and files that others wrote, there and back."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message

from ottla.schemas.protobuf.printer import default_json_name
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema

PROTO2 = """\
syntax = "proto2";
package a.b;

import public "google/protobuf/any.proto";
import "google/protobuf/descriptor.proto";

option java_package = "a.b";
option optimize_for = CODE_SIZE;
option (file_note) = "n";

extend .google.protobuf.FieldOptions {
  optional float weight = 50001;
  repeated string labels = 50002;
  optional Note note = 50003;
}

extend .google.protobuf.FileOptions {
  optional string file_note = 50001;
}

extend Note {
  optional int32 extra = 10;
}

message Everything {
  option deprecated = true;

  optional double a1 = 1 [default = -inf];
  optional float a2 = 2 [default = 1.5e+10];
  optional int32 a3 = 3 [default = -16];
  optional uint64 a4 = 4 [default = 18446744073709551615];
  optional bool a5 = 5 [default = true];
  optional string a6 = 6 [default = "tab\\t\\"\\\\\\001é"];
  optional bytes a7 = 7 [default = "\\000\\377\\"'"];
  optional Kind a8 = 8 [default = SECOND];
  repeated fixed32 a9 = 9 [packed = true];
  required sint64 a10 = 10 [json_name = "ten"];
  optional string a11 = 11 [deprecated = true, (weight) = 0.1, (labels) = "p", (labels) = "q"];
  optional string a12 = 12 [(note) = {text: "t", tags: ["x", "y"], inner: {text: "u"}, [a.b.extra]: 7}];
  optional group Part = 13 [deprecated = true] {
    optional Part part = 1;
    optional Everything whole = 2;
  }
  map<string, Nested.Deep> a14 = 14;

  message Nested {
    optional Deep deep = 1;
    optional Nested again = 2;

    message Deep {
    }
  }

  oneof choice {
    int32 a15 = 15;
    group Chosen = 16 {
    }
    Nested a17 = 17;
  }

  enum Kind {
    option allow_alias = true;

    FIRST = 0;
    SECOND = 1 [deprecated = true];
    ALSO_SECOND = 1;
    LESS = -1;
    reserved 5, 7 to 9, 100 to max;
    reserved "OLD";
  }

  extensions 100 to 199;
  extensions 1000 to max;
  reserved 20, 30 to 40;
  reserved "old", "older";
}

message Note {
  optional string text = 1;
  repeated string tags = 2;
  optional Note inner = 3;

  extensions 10;
}

extend Everything {
  repeated group Added = 100 {
    optional string a = 1;
  }
  optional .google.protobuf.Any any = 101;
}

enum google {
  NONE = 0;
}

service Calls {
  option deprecated = true;

  rpc Once (Note) returns (Everything.Nested);
  rpc Many (stream Note) returns (stream Note) {
    option idempotency_level = NO_SIDE_EFFECTS;
  }
}
"""

SAMPLES = {
    "proto3": """\
syntax = "proto3";

message M {
  optional int32 a = 1;
  repeated bool b = 2 [packed = false];

  oneof c {
    string d = 3;
  }
}
""",
    "edition 2023": """\
edition = "2023";
package e;

option features.field_presence = IMPLICIT;
option features.enum_type = CLOSED;

message M {
  int32 a = 1 [features.field_presence = LEGACY_REQUIRED];
  M m = 2 [features.message_encoding = DELIMITED];
  repeated int32 r = 3 [features.repeated_field_encoding = EXPANDED];

  reserved 9 to max;
  reserved old, older;
}
""",
    "message set": """\
syntax = "proto2";

message M {
  option message_set_wire_format = true;

  extensions 4 to max;
}
""",
    "names that are words of the language": """\
syntax = "proto3";
package message;

message message {
  .message.message message = 1;
  .message.option option = 2;
  .message.string string = 3;

  enum inner {
    A = 0;
  }
}

message option {
}

message string {
}
""",
    "names that hide each other": """\
syntax = "proto3";
package a.a;

message a {
  a b = 1;
  .a.a.b c = 2;

  message a {
    a d = 1;
    .a.a.a e = 2;
    .a.a.b f = 3;
  }
}

message b {
}
""",
}


def parsed(text: str) -> ProtobufSchema:
    return ProtobufFormat().parse(text, {})


def test_everything_of_proto2_is_printed() -> None:
    printed = parsed(PROTO2).canonical_text

    assert printed == PROTO2


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
def test_samples_are_their_own_canonical_texts(text: str) -> None:
    assert parsed(text).canonical_text == text


@pytest.mark.parametrize("text", [PROTO2, *SAMPLES.values()], ids=["proto2", *SAMPLES])
def test_every_form_gives_the_same_descriptor(text: str) -> None:
    schema = parsed(text)
    serialized = schema.formatted("serialized")

    assert parsed(serialized).formatted("serialized") == serialized
    assert parsed(schema.canonical_text).formatted("serialized") == serialized
    assert parsed(schema.normalized()).normalized() == schema.normalized()


def test_visibility_and_imports_of_options_of_edition_2024() -> None:
    text = """\
edition = "2024";

import option "google/protobuf/cpp_features.proto";

export message M {
  int32 a = 1;

  local message N {
  }
}

local enum E {
  A = 0;
}
"""
    assert parsed(text).canonical_text == text


@pytest.mark.parametrize(
    ("name", "json_name"),
    [("a", "a"), ("a_b", "aB"), ("_a", "A"), ("a__b", "aB"), ("A_b", "AB"), ("a1_2", "a12"), ("a_", "a")],
)
def test_default_json_names_are_protocs(name: str, json_name: str) -> None:
    field = (
        parsed(f'syntax = "proto3"; message M {{ int32 {name} = 1; }}')
        .message_class((0,))
        .DESCRIPTOR.fields[0]
    )

    assert default_json_name(name) == json_name == field.json_name


def test_a_json_name_that_is_the_default_is_not_told() -> None:
    text = 'syntax = "proto3"; message M { int32 a_b = 1 [json_name = "aB"]; }'

    assert "json_name" not in parsed(text).canonical_text


def _googles() -> Iterator[tuple[str, Path]]:
    for package in (
        "google.api",
        "google.type",
        "google.rpc",
        "google.longrunning",
        "google.logging",
        "grpc_tools",
    ):
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.submodule_search_locations is not None
        root = Path(next(iter(found.submodule_search_locations)))
        base = root / "_proto" if package == "grpc_tools" else root.parents[package.count(".")]
        for path in sorted((base if package == "grpc_tools" else root).rglob("*.proto")):
            yield path.relative_to(base).as_posix(), path


GOOGLES = dict(_googles())


@pytest.mark.parametrize("name", GOOGLES)
def test_googles_files_come_back_as_they_were(name: str) -> None:
    texts = {path: file.read_text("utf-8") for path, file in GOOGLES.items() if path != name}
    imports = _imports_of(GOOGLES[name].read_text("utf-8"), texts)

    schema = ProtobufFormat().parse(GOOGLES[name].read_text("utf-8"), imports)

    expected = _descriptor(schema)
    for text in (schema.canonical_text, schema.formatted("serialized")):
        again = ProtobufFormat().parse(text, imports)
        assert _descriptor(again) == expected
        assert again.canonical_text == schema.canonical_text
        assert again.normalized() == schema.normalized()


def _imports_of(text: str, texts: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    waiting = [text]
    while waiting:
        source = waiting.pop()
        for path, other in texts.items():
            if f'"{path}"' in source and path not in found:
                found[path] = other
                waiting.append(other)
    return found


def _descriptor(schema: ProtobufSchema) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor without options that are there and empty, which a text has no way to say."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    _drop_empty_options(file)
    return file


def _drop_empty_options(message: Message) -> None:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for one in value if field.is_repeated else (value,):
            _drop_empty_options(one)
        if field.name == "options" and not value.ByteSize():
            message.ClearField("options")
