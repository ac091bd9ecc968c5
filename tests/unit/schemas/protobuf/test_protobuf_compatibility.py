"""Which changes of a Protobuf schema are compatible, case by case, in both directions.

`backward`: what is reported when data of the old schema is read with the new one; `forward` the other way.
A level is the two together: BACKWARD asks for the first to be empty, FORWARD for the second, FULL for both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.schemas.format import InvalidSchema
from ottla.schemas.model import CompatibilityPolicy
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema

PACKAGE = "PACKAGE_CHANGED"
MESSAGE_REMOVED = "MESSAGE_REMOVED"
KIND = "FIELD_KIND_CHANGED"
SCALAR = "FIELD_SCALAR_KIND_CHANGED"
NAMED = "FIELD_NAMED_TYPE_CHANGED"
LABEL = "FIELD_NUMERIC_LABEL_CHANGED"
REQUIRED_ADDED = "REQUIRED_FIELD_ADDED"
REQUIRED_REMOVED = "REQUIRED_FIELD_REMOVED"
ONEOF_FIELD_REMOVED = "ONEOF_FIELD_REMOVED"
MULTIPLE = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
EXISTING = "FIELD_MOVED_TO_EXISTING_ONEOF"


@dataclass(frozen=True, slots=True)
class Case:
    """Two schemas; bodies of a proto3 file of the package `p` unless they say their syntax themselves."""

    name: str
    old: str
    new: str
    backward: tuple[str, ...] = ()
    forward: tuple[str, ...] = ()
    old_references: dict[str, str] = field(default_factory=dict)
    new_references: dict[str, str] = field(default_factory=dict)


def same(name: str, old: str, new: str) -> Case:
    """A change that is compatible in both directions."""
    return Case(name, old, new)


def both(name: str, old: str, new: str, *differences: str) -> Case:
    """A change that is reported alike in both directions."""
    return Case(name, old, new, differences, differences)


def one_field(old: str, new: str, *differences: str) -> Case:
    """A field that changes its type."""
    enums = (
        " enum E { E0 = 0; E1 = 1; } enum F { F0 = 0; } message N { int32 n = 1; } message O { int32 n = 1; }"
    )
    body = "message M {{ {} f = 1; }}" + enums.replace("{", "{{").replace("}", "}}")
    return both(f"{old} and {new}", body.format(old), body.format(new), *differences)


P2 = 'syntax = "proto2"; package p; '

IDENTITY = [
    same("nothing changes", "message M { int32 a = 1; }", "message M { int32 a = 1; }"),
    same(
        "layout and comments change", "message M { int32 a = 1; }", "/* x */ message M {\n// y\nint32 a=1;}"
    ),
    both("the package changes", "message M {}", 'syntax = "proto3"; package q; message M {}', PACKAGE),
    both("the package goes", "message M {}", 'syntax = "proto3"; message M {}', PACKAGE),
    both(
        "the package changes, and a field too",
        "message M { int32 a = 1; }",
        'syntax = "proto3"; package q; message M { string a = 1; }',
        PACKAGE,
        SCALAR,
    ),
    both(
        "the package changes, types of fields are the same but for it",
        "message M { N n = 1; } message N {}",
        'syntax = "proto3"; package q; message M { N n = 1; } message N {}',
        PACKAGE,
    ),
    same("options of the file change", 'option java_package = "a"; message M {}', "message M {}"),
    same(
        "the syntax changes",
        "message M { optional int32 a = 1; }",
        P2 + "message M { optional int32 a = 1; }",
    ),
    same(
        "the syntax becomes an edition",
        "message M { int32 a = 1; }",
        'edition = "2023"; package p; message M { int32 a = 1; }',
    ),
    same("a service is added", "message M {}", "message M {} service S { rpc R (M) returns (M); }"),
    same(
        "a method changes",
        "message M {} service S { rpc R (M) returns (M); }",
        "message M {} service S { rpc Q (stream M) returns (M); }",
    ),
]

MESSAGES = [
    Case("a message is added", "message M {}", "message M {} message N {}", (), (MESSAGE_REMOVED,)),
    Case("a nested message is added", "message M {}", "message M { message N {} }", (), (MESSAGE_REMOVED,)),
    Case(
        "a message and what it nests are removed",
        "message M {} message N { message O {} }",
        "message M {}",
        (MESSAGE_REMOVED, MESSAGE_REMOVED),
    ),
    both("a message is renamed", "message M {}", "message N {}", MESSAGE_REMOVED),
    both("a message is nested", "message M {} message N {}", "message M { message N {} }", MESSAGE_REMOVED),
    same("messages change places", "message M {} message N {}", "message N {} message M {}"),
    Case(
        "a message becomes an enum",
        "message M {} message N {}",
        "message M {} enum N { A = 0; }",
        (MESSAGE_REMOVED,),
        (),
    ),
    Case(
        "a message moves to an imported file of the same package",
        "message M { N n = 1; } message N { int32 a = 1; }",
        'syntax = "proto3"; package p; import "n.proto"; message M { N n = 1; }',
        new_references={"n.proto": 'syntax = "proto3"; package p; message N { int32 a = 1; }'},
    ),
    Case(
        "a message that moves to an imported file changes",
        "message M { N n = 1; } message N { int32 a = 1; }",
        'syntax = "proto3"; package p; import "n.proto"; message M { N n = 1; }',
        (SCALAR,),
        (SCALAR,),
        new_references={"n.proto": 'syntax = "proto3"; package p; message N { string a = 1; }'},
    ),
    Case(
        "a message of an imported file changes",
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        (SCALAR,),
        (SCALAR,),
        {"n.proto": 'syntax = "proto3"; package q; message N { int32 a = 1; }'},
        {"n.proto": 'syntax = "proto3"; package q; message N { string a = 1; }'},
    ),
    Case(
        "a message deep in imported files changes",
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        (LABEL,),
        (LABEL,),
        {
            "o.proto": 'syntax = "proto3"; package r; message O { optional int32 a = 1; }',
            "n.proto": 'syntax = "proto3"; package q; import "o.proto"; message N { r.O o = 1; }',
        },
        {
            "o.proto": 'syntax = "proto3"; package r; message O { repeated int32 a = 1; }',
            "n.proto": 'syntax = "proto3"; package q; import "o.proto"; message N { r.O o = 1; }',
        },
    ),
    Case(
        "a message of an imported file that no field reaches changes",
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        (),
        (),
        {"n.proto": 'syntax = "proto3"; package q; message N {} message Other { int32 a = 1; }'},
        {"n.proto": 'syntax = "proto3"; package q; message N {} message Other { string a = 1; }'},
    ),
    Case(
        "the import's path changes",
        'syntax = "proto3"; package p; import "n.proto"; message M { q.N n = 1; }',
        'syntax = "proto3"; package p; import "v2/n.proto"; message M { q.N n = 1; }',
        (),
        (),
        {"n.proto": 'syntax = "proto3"; package q; message N { int32 a = 1; }'},
        {"v2/n.proto": 'syntax = "proto3"; package q; message N { int32 a = 1; }'},
    ),
    same(
        "messages in a cycle",
        "message M { N n = 1; } message N { M m = 1; }",
        "message M { N n = 1; } message N { M m = 1; int32 a = 2; }",
    ),
    both(
        "messages in a cycle, one changes",
        "message M { N n = 1; } message N { M m = 1; int32 a = 2; }",
        "message M { N n = 1; } message N { M m = 1; string a = 2; }",
        SCALAR,
    ),
    both(
        "a nested message changes",
        "message M { message N { int32 a = 1; } }",
        "message M { message N { double a = 1; } }",
        SCALAR,
    ),
]

FIELDS = [
    same("a field is added", "message M { int32 a = 1; }", "message M { int32 a = 1; int32 b = 2; }"),
    same(
        "a field is added before others",
        "message M { int32 a = 2; }",
        "message M { int32 b = 1; int32 a = 2; }",
    ),
    same("all fields are removed", "message M { int32 a = 1; string b = 2; }", "message M {}"),
    same(
        "a removed field is reserved", "message M { int32 a = 1; }", 'message M { reserved 1; reserved "a"; }'
    ),
    same("a field is renamed", "message M { int32 a = 1; }", "message M { int32 b = 1; }"),
    same(
        "two fields swap their names and types",
        "message M { int32 a = 1; int64 b = 2; }",
        "message M { int64 b = 1; int32 a = 2; }",
    ),
    same("a field gets another number", "message M { int32 a = 1; }", "message M { int32 a = 2; }"),
    same(
        "fields change places",
        "message M { int32 a = 1; string b = 2; }",
        "message M { string b = 2; int32 a = 1; }",
    ),
    same(
        "a field gets a JSON name",
        "message M { int32 a = 1; }",
        'message M { int32 a = 1 [json_name = "z"]; }',
    ),
    same(
        "a field becomes deprecated",
        "message M { int32 a = 1; }",
        "message M { int32 a = 1 [deprecated = true]; }",
    ),
    same(
        "a default changes",
        P2 + "message M { optional int32 a = 1 [default = 1]; }",
        P2 + "message M { optional int32 a = 1 [default = 2]; }",
    ),
    same("a field becomes optional", "message M { int32 a = 1; }", "message M { optional int32 a = 1; }"),
    same("a message field becomes optional", "message M { M a = 1; }", "message M { optional M a = 1; }"),
    same("an optional field is added", "message M {}", "message M { optional int32 a = 1; }"),
    same(
        "a number is given to another field of the group",
        "message M { int32 a = 1; }",
        "message M { bool z = 1; }",
    ),
    both(
        "a number is given to another field of another kind",
        "message M { int32 a = 1; }",
        "message M { M z = 1; }",
        KIND,
    ),
    same(
        "packed or not",
        P2 + "message M { repeated int32 a = 1 [packed = true]; }",
        P2 + "message M { repeated int32 a = 1; }",
    ),
]

TYPES = [
    one_field("int32", "int64"),
    one_field("int32", "uint32"),
    one_field("int32", "uint64"),
    one_field("int32", "bool"),
    one_field("uint32", "uint64"),
    one_field("uint64", "int64"),
    one_field("bool", "int64"),
    one_field("bool", "uint32"),
    one_field("E", "int32"),
    one_field("E", "uint32"),
    one_field("E", "int64"),
    one_field("E", "uint64"),
    one_field("E", "bool"),
    one_field("E", "F"),
    one_field("sint32", "sint64"),
    one_field("string", "bytes"),
    one_field("fixed32", "sfixed32"),
    one_field("fixed64", "sfixed64"),
    one_field("int32", "sint32", SCALAR),
    one_field("int64", "sint64", SCALAR),
    one_field("uint32", "sint32", SCALAR),
    one_field("bool", "sint32", SCALAR),
    one_field("int32", "fixed32", SCALAR),
    one_field("int64", "fixed64", SCALAR),
    one_field("fixed32", "fixed64", SCALAR),
    one_field("sfixed32", "sfixed64", SCALAR),
    one_field("fixed32", "float", SCALAR),
    one_field("fixed64", "double", SCALAR),
    one_field("float", "double", SCALAR),
    one_field("float", "int32", SCALAR),
    one_field("double", "int64", SCALAR),
    one_field("int32", "string", SCALAR),
    one_field("bool", "string", SCALAR),
    one_field("bytes", "uint64", SCALAR),
    one_field("float", "string", SCALAR),
    one_field("E", "string", SCALAR),
    one_field("E", "sint32", SCALAR),
    one_field("E", "double", SCALAR),
    one_field("N", "string", KIND),
    one_field("N", "bytes", KIND),
    one_field("N", "int32", KIND),
    one_field("N", "E", KIND),
    one_field("N", "O", NAMED),
    one_field("repeated N", "repeated O", NAMED),
    one_field("repeated int32", "repeated int64"),
    one_field("repeated string", "repeated bytes"),
    one_field("repeated int32", "repeated string", SCALAR),
]

LABELS = [
    one_field("int32", "repeated int32"),
    one_field("int64", "repeated uint32"),
    one_field("E", "repeated E"),
    one_field("int32", "repeated string", SCALAR),
    one_field("double", "optional double"),
    one_field("optional int32", "repeated int32", LABEL),
    one_field("optional int64", "repeated uint32", LABEL),
    one_field("optional bool", "repeated bool", LABEL),
    one_field("optional E", "repeated E", LABEL),
    one_field("optional sint32", "repeated sint32", LABEL),
    one_field("optional fixed64", "repeated fixed64", LABEL),
    one_field("optional float", "repeated float", LABEL),
    one_field("string", "repeated string"),
    one_field("bytes", "repeated bytes"),
    one_field("string", "repeated bytes"),
    one_field("optional string", "repeated string"),
    one_field("N", "repeated N"),
    one_field("optional N", "repeated N"),
    both(
        "repeated and one of an unpacked number",
        P2 + "message M { optional int32 f = 1; }",
        P2 + "message M { repeated int32 f = 1; }",
        LABEL,
    ),
    same(
        "repeated and one of an edition's number",
        'edition = "2023"; package p; message M { int32 f = 1; }',
        'edition = "2023"; package p; message M { repeated int32 f = 1; }',
    ),
]

MAPS = [
    one_field("map<string, int32>", "map<string, int64>"),
    one_field("map<int32, string>", "map<uint64, bytes>"),
    one_field("map<string, int32>", "map<string, string>", SCALAR),
    one_field("map<string, int32>", "map<int32, int32>", SCALAR),
    one_field("map<string, int32>", "map<int32, string>", SCALAR, SCALAR),
    one_field("map<string, N>", "map<string, O>", NAMED),
    one_field("map<string, N>", "map<string, int32>", KIND),
    one_field("map<string, E>", "map<string, int32>"),
    one_field("map<string, int32>", "N", KIND),
    one_field("map<string, int32>", "repeated N", KIND),
    one_field("map<string, int32>", "string", KIND),
    same("a map is added", "message M {}", "message M { map<string, int32> a = 1; }"),
    both(
        "the message of a map's values changes",
        "message M { map<string, N> a = 1; } message N { int32 a = 1; }",
        "message M { map<string, N> a = 1; } message N { string a = 1; }",
        SCALAR,
    ),
]

REQUIRED = [
    Case(
        "a required field is added",
        P2 + "message M {}",
        P2 + "message M { required int32 a = 1; }",
        (REQUIRED_ADDED,),
        (REQUIRED_REMOVED,),
    ),
    Case(
        "a required field is removed",
        P2 + "message M { required string a = 1; optional int32 b = 2; }",
        P2 + "message M { optional int32 b = 2; }",
        (REQUIRED_REMOVED,),
        (REQUIRED_ADDED,),
    ),
    *(
        both(
            f"an optional number becomes required: {kind}",
            P2 + f"message M {{ optional {kind} a = 1; }} enum E {{ E0 = 0; }}",
            P2 + f"message M {{ required {kind} a = 1; }} enum E {{ E0 = 0; }}",
            LABEL,
        )
        for kind in ("int32", "sint64", "fixed32", "double", "bool", "E")
    ),
    both(
        "a repeated number becomes required",
        P2 + "message M { repeated int32 a = 1; }",
        P2 + "message M { required int32 a = 1; }",
        LABEL,
    ),
    *(
        same(
            f"a string or a message becomes required: {label} {kind}",
            P2 + f"message M {{ {label} {kind} a = 1; }} message N {{}}",
            P2 + f"message M {{ required {kind} a = 1; }} message N {{}}",
        )
        for label in ("optional", "repeated")
        for kind in ("string", "bytes", "N")
    ),
    *(
        Case(
            f"a field without a label becomes required: {kind}",
            f"message M {{ {kind} a = 1; }} message N {{}}",
            P2 + f"message M {{ required {kind} a = 1; }} message N {{}}",
            (REQUIRED_ADDED,),
            (),
        )
        for kind in ("int32", "string", "N")
    ),
    Case(
        "a field of a oneof becomes required",
        P2 + "message M { oneof x { string a = 1; } }",
        P2 + "message M { required string a = 1; }",
        (REQUIRED_ADDED,),
        (),
    ),
    same(
        "a required field gets another type of the group",
        P2 + "message M { required int32 a = 1; }",
        P2 + "message M { required int64 a = 1; }",
    ),
    both(
        "a required field gets another type",
        P2 + "message M { required int32 a = 1; }",
        P2 + "message M { required string a = 1; }",
        SCALAR,
    ),
    Case(
        "a field becomes required by a feature of the edition",
        'edition = "2023"; package p; message M { int32 a = 1; }',
        'edition = "2023"; package p; message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }',
        (REQUIRED_ADDED,),
        (),
    ),
    Case(
        "a required field of a nested message is added",
        P2 + "message M { message N {} optional N n = 1; }",
        P2 + "message M { message N { required int32 a = 1; } optional N n = 1; }",
        (REQUIRED_ADDED,),
        (REQUIRED_REMOVED,),
    ),
]

ONEOFS = [
    same(
        "a oneof is added with new fields",
        "message M { int32 a = 1; }",
        "message M { int32 a = 1; oneof x { int32 b = 2; int32 c = 3; } }",
    ),
    same(
        "a oneof is removed with its fields",
        "message M { int32 a = 1; oneof x { int32 b = 2; int32 c = 3; } }",
        "message M { int32 a = 1; }",
    ),
    Case(
        "a field is added to a oneof",
        "message M { oneof x { int32 a = 1; } }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        (),
        (ONEOF_FIELD_REMOVED,),
    ),
    Case(
        "a field of a oneof is removed",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof x { int32 a = 1; } }",
        (ONEOF_FIELD_REMOVED,),
        (),
    ),
    Case(
        "two fields of a oneof are removed",
        "message M { oneof x { int32 a = 1; int32 b = 2; int32 c = 3; } }",
        "message M { oneof x { int32 a = 1; } }",
        (ONEOF_FIELD_REMOVED, ONEOF_FIELD_REMOVED),
        (),
    ),
    Case(
        "a field is removed of a oneof that is renamed",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof y { int32 a = 1; } }",
        (ONEOF_FIELD_REMOVED,),
        (),
    ),
    same(
        "a oneof is renamed",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof y { int32 a = 1; int32 b = 2; } }",
    ),
    same(
        "a field of a oneof is renamed",
        "message M { oneof x { int32 a = 1; } }",
        "message M { oneof x { int32 z = 1; } }",
    ),
    same(
        "a field moves to a new oneof", "message M { int32 a = 1; }", "message M { oneof x { int32 a = 1; } }"
    ),
    same(
        "an optional field moves to a new oneof",
        "message M { optional int32 a = 1; }",
        "message M { oneof x { int32 a = 1; } }",
    ),
    Case(
        "a field moves to a new oneof, which has a new one as well",
        "message M { int32 a = 1; }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        (),
        (ONEOF_FIELD_REMOVED,),
    ),
    Case(
        "two fields move to a new oneof",
        "message M { int32 a = 1; int32 b = 2; }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        (MULTIPLE,),
        (),
    ),
    Case(
        "two optional fields move to a new oneof",
        "message M { optional int32 a = 1; optional int32 b = 2; }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        (MULTIPLE,),
        (),
    ),
    Case(
        "two fields move to a new oneof each",
        "message M { int32 a = 1; int32 b = 2; }",
        "message M { oneof x { int32 a = 1; } oneof y { int32 b = 2; } }",
    ),
    Case(
        "a field moves to a oneof that there is",
        "message M { int32 a = 1; oneof x { int32 b = 2; } }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        (EXISTING,),
        (),
    ),
    Case(
        "two fields move to a oneof that there is",
        "message M { int32 a = 1; int32 c = 3; oneof x { int32 b = 2; } }",
        "message M { oneof x { int32 a = 1; int32 b = 2; int32 c = 3; } }",
        (MULTIPLE,),
        (),
    ),
    Case(
        "a field takes the place of a oneof's only one",
        "message M { int32 a = 1; oneof x { int32 b = 2; } }",
        "message M { oneof x { int32 a = 1; } }",
        (ONEOF_FIELD_REMOVED,),
        (),
    ),
    same(
        "a oneof of one field is dissolved",
        "message M { oneof x { int32 a = 1; } }",
        "message M { int32 a = 1; }",
    ),
    Case(
        "a oneof of two fields is dissolved",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { int32 a = 1; int32 b = 2; }",
        (),
        (MULTIPLE,),
    ),
    Case(
        "a field leaves a oneof",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof x { int32 a = 1; } int32 b = 2; }",
        (),
        (EXISTING,),
    ),
    Case(
        "two oneofs are merged",
        "message M { oneof x { int32 a = 1; } oneof y { int32 b = 2; } }",
        "message M { oneof z { int32 a = 1; int32 b = 2; } }",
        (EXISTING,),
        (),
    ),
    Case(
        "a oneof takes in another's field",
        "message M { oneof x { int32 a = 1; } oneof y { int32 b = 2; int32 c = 3; } }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } oneof y { int32 c = 3; } }",
        (EXISTING,),
        (EXISTING,),
    ),
    both(
        "a field of a oneof changes its type",
        "message M { oneof x { int32 a = 1; string b = 2; } }",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        SCALAR,
    ),
    same(
        "a field of a oneof changes within its group",
        "message M { oneof x { int32 a = 1; } }",
        "message M { oneof x { bool a = 1; } }",
    ),
    same(
        "the fields of a oneof change places",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof x { int32 b = 2; int32 a = 1; } }",
    ),
    same(
        "a field of a oneof becomes repeated",
        "message M { oneof x { int32 a = 1; } }",
        "message M { repeated int32 a = 1; }",
    ),
    Case(
        "a oneof is dissolved and loses a field",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { int32 a = 1; }",
        (ONEOF_FIELD_REMOVED,),
        (),
    ),
    Case(
        "a oneof's field moves to another one and its other field goes",
        "message M { oneof x { int32 a = 1; int32 b = 2; } }",
        "message M { oneof y { int32 a = 1; int32 c = 3; } }",
        (ONEOF_FIELD_REMOVED,),
        (ONEOF_FIELD_REMOVED,),
    ),
]

ENUMS = [
    same(
        "a constant is added",
        "message M { E e = 1; } enum E { A = 0; }",
        "message M { E e = 1; } enum E { A = 0; B = 1; }",
    ),
    same("a constant is renamed", "enum E { A = 0; } message M {}", "enum E { Z = 0; } message M {}"),
    same(
        "a constant gets another number",
        "enum E { A = 0; B = 1; } message M {}",
        "enum E { A = 0; B = 2; } message M {}",
    ),
    same("an enum is added", "message M {}", "message M {} enum E { A = 0; }"),
    same(
        "an enum is nested",
        "message M { E e = 1; } enum E { A = 0; }",
        "message M { enum E { A = 0; } E e = 1; }",
    ),
    same(
        "a closed enum becomes open",
        P2 + "message M { optional E e = 1; } enum E { A = 0; }",
        "message M { E e = 1; } enum E { A = 0; }",
    ),
]

GROUPS_AND_EXTENSIONS = [
    same(
        "a group gets a field",
        P2 + "message M { optional group G = 1 { optional int32 a = 1; } }",
        P2 + "message M { optional group G = 1 { optional int32 a = 1; optional int32 b = 2; } }",
    ),
    both(
        "a field of a group changes",
        P2 + "message M { optional group G = 1 { optional int32 a = 1; } }",
        P2 + "message M { optional group G = 1 { optional string a = 1; } }",
        SCALAR,
    ),
    both(
        "a group becomes a message",
        P2 + "message M { optional group G = 1 { optional int32 a = 1; } }",
        P2 + "message M { message G { optional int32 a = 1; } optional G g = 1; }",
        KIND,
    ),
    both(
        "a message is delimited by a feature",
        'edition = "2023"; package p; message M { M m = 1; }',
        'edition = "2023"; package p; message M { M m = 1 [features.message_encoding = DELIMITED]; }',
        KIND,
    ),
    same(
        "an extension is added",
        P2 + "message M { extensions 10 to 20; }",
        P2 + "message M { extensions 10 to 20; } extend M { optional int32 a = 10; }",
    ),
    both(
        "an extension changes its type",
        P2 + "message M { extensions 10; } extend M { optional int32 a = 10; }",
        P2 + "message M { extensions 10; } extend M { optional string a = 10; }",
        SCALAR,
    ),
    same(
        "a field becomes an extension",
        P2 + "message M { optional int32 a = 10; }",
        P2 + "message M { extensions 10; } extend M { optional int32 a = 10; }",
    ),
    both(
        "a field becomes an extension of another type",
        P2 + "message M { optional int32 a = 10; }",
        P2 + "message M { extensions 10; } extend M { optional string a = 10; }",
        SCALAR,
    ),
    same(
        "custom options change",
        P2 + 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions '
        "{ optional int32 w = 50000; } message M { optional int32 a = 1 [(w) = 1]; }",
        P2 + 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions '
        "{ optional string w = 50000; } message M { optional int32 a = 1; }",
    ),
]

SEVERAL = [
    Case(
        "several differences are all reported",
        "message M { int32 a = 1; optional int32 b = 2; string c = 3; } message Gone {}",
        "message M { string a = 1; repeated int32 b = 2; M c = 3; }",
        (MESSAGE_REMOVED, SCALAR, LABEL, KIND),
        (SCALAR, LABEL, KIND),
    ),
    same(
        "a well-known type is used before and after",
        'import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }',
        'import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp u = 1; M b = 2; }',
    ),
    both(
        "a well-known type becomes another",
        'import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }',
        'import "google/protobuf/duration.proto"; message M { google.protobuf.Duration t = 1; }',
        NAMED,
    ),
    both(
        "a wrapper becomes its scalar",
        'import "google/protobuf/wrappers.proto"; message M { google.protobuf.StringValue t = 1; }',
        "message M { string t = 1; }",
        KIND,
    ),
]

CASES = [
    *IDENTITY,
    *MESSAGES,
    *FIELDS,
    *TYPES,
    *LABELS,
    *MAPS,
    *REQUIRED,
    *ONEOFS,
    *ENUMS,
    *GROUPS_AND_EXTENSIONS,
    *SEVERAL,
]


def parsed(text: str, references: dict[str, str] | None = None) -> ProtobufSchema:
    if not text.startswith(("syntax", "edition")):
        text = f'syntax = "proto3"; package p; {text}'
    return ProtobufFormat().parse(text, references or {})


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_change_is_compatible_or_not_in_each_direction(case: Case) -> None:
    old, new = parsed(case.old, case.old_references), parsed(case.new, case.new_references)

    backward = sorted(reason.type for reason in new.incompatibilities(old))
    forward = sorted(reason.type for reason in old.incompatibilities(new))

    assert backward == sorted(case.backward)
    assert forward == sorted(case.forward)


def test_the_table_has_no_case_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_a_reason_says_the_field_and_the_place() -> None:
    old = parsed("message M { message Inner { int32 count = 3; } }")
    new = parsed("message M { message Inner { string count = 3; } }")

    (reason,) = new.incompatibilities(old)

    assert "'count'" in reason.description
    assert "int32" in reason.description
    assert "string" in reason.description
    assert "#/M.Inner/3" in reason.description
    assert reason.additional_info == "#/M.Inner/3"


def test_the_policy_changes_nothing() -> None:
    old, new = parsed("message M { int32 a = 1; }"), parsed("message M { string a = 1; }")

    strict = new.incompatibilities(old, CompatibilityPolicy.STRICT)

    assert strict == new.incompatibilities(old, CompatibilityPolicy.LENIENT)
    assert strict


def test_reasons_are_bounded() -> None:
    fields = " ".join(f"{{}} f{number} = {number};" for number in range(1, 400))
    old = parsed("message M { " + fields.replace("{}", "int32") + " }")
    new = parsed("message M { " + fields.replace("{}", "string") + " }")

    assert len(new.incompatibilities(old)) == 100


def test_data_written_by_python_and_as_text_is_compared_alike() -> None:
    text = parsed("message M { oneof x { int32 a = 1; int32 b = 2; } map<string, M> c = 3; }")
    descriptor = ProtobufFormat().parse(text.formatted("serialized"), {})

    assert descriptor.incompatibilities(text) == []
    assert text.incompatibilities(descriptor) == []


def test_an_invalid_schema_is_never_compared() -> None:
    with pytest.raises(InvalidSchema):
        parsed("message M { Missing a = 1; }")
