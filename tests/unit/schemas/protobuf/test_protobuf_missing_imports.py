"""Imports that no reference gives: options that only they declare are kept, their types are refused."""

from __future__ import annotations

import base64
from itertools import product

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema

SHOP = """\
syntax = "proto3";
package shop.v1;

import "google/api/annotations.proto";
import "google/api/field_behavior.proto";
import public "validate/validate.proto";
import "gogoproto/gogo.proto";
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";

option java_package = "shop";
option (gogoproto.goproto_getters_all) = false;

message Order {
  option (gogoproto.equal) = true;

  string id = 1 [deprecated = true, (validate.rules).string.min_len = 1, (google.api.field_behavior) = REQUIRED, (google.api.field_behavior) = OUTPUT_ONLY];
  google.protobuf.Timestamp placed = 2 [(confluent.field_meta) = {doc: "when"}, (gogoproto.stdtime) = true];
  map<string, int32> counts = 3 [(validate.rules).map = {min_pairs: 1, keys: {string: {in: ["a", "b"]}}, values: {int32: {gt: -1}}}];

  oneof payment {
    option (validate.required) = true;
    string card = 4 [(validate.rules).string = {email: true}];
    int32 voucher = 5;
  }

  enum State {
    option (gogoproto.goproto_enum_prefix) = false;

    NEW = 0 [(gogoproto.enumvalue_customname) = "new \\"one\\"\\001"];
  }
}

service Orders {
  option (google.api.default_host) = "shop.example.com";

  rpc Get (Order) returns (Order) {
    option deprecated = true;
    option (google.api.http) = {get: "/v1/{id=*}", additional_bindings: {post: "/v1", body: "*"}};
  }
  rpc Watch (stream Order) returns (Order);
}
"""  # noqa: E501  # as the registry prints it


def parsed(text: str, references: dict[str, str] | None = None) -> ProtobufSchema:
    return ProtobufFormat().parse(text, references or {})


def refusal(text: str, references: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidSchema) as refused:
        parsed(text, references)
    return str(refused.value)


def with_option(option: str) -> str:
    return f'syntax = "proto3"; package p; import "o.proto"; message M {{ int32 a = 1 [{option}]; }}'


class TestKept:
    def test_a_schema_with_options_of_missing_files_is_its_own_text(self) -> None:
        assert parsed(SHOP).canonical_text == SHOP
        assert parsed(SHOP).name == "shop.v1.Order"

    def test_the_layout_of_an_option_does_not_matter(self) -> None:
        text = SHOP.replace(
            '{get: "/v1/{id=*}", additional_bindings: {post: "/v1", body: "*"}}',
            "{ /* { */ get: '/v1/' \"{id=*}\"; additional_bindings < post: \"/v1\" body: '*', > }",
        ).replace("(gogoproto.equal) = true", "( gogoproto . equal )\n= true /* ; */")

        assert parsed(text).canonical_text == SHOP

    def test_the_normal_form_is_its_own_whatever_the_order(self) -> None:
        other = SHOP.replace(
            "(google.api.field_behavior) = REQUIRED, (google.api.field_behavior) = OUTPUT_ONLY", "X"
        ).replace(
            "(validate.rules).string.min_len = 1, X",
            "(google.api.field_behavior) = REQUIRED, (google.api.field_behavior) = OUTPUT_ONLY, "
            "(validate.rules).string.min_len = 1",
        )
        assert parsed(other).canonical_text != SHOP

        normal = parsed(SHOP).normalized()

        assert parsed(other).normalized() == normal
        assert parsed(normal).normalized() == normal
        assert "(validate.rules).string.min_len = 1" in normal

    def test_options_make_a_schema_another_one_but_not_an_incompatible_one(self) -> None:
        old, new = parsed(SHOP), parsed(SHOP.replace("min_len = 1", "min_len = 2"))

        assert old.canonical_text != new.canonical_text
        assert new.incompatibilities(old) == []
        assert new.incompatibilities(parsed(SHOP.replace("int32 voucher", "string voucher")))

    def test_a_descriptor_for_clients_needs_no_missing_file(self) -> None:
        file = FileDescriptorProto.FromString(base64.b64decode(parsed(SHOP).formatted("serialized")))
        pool = DescriptorPool()
        for path in ("google/protobuf/descriptor.proto", "google/protobuf/timestamp.proto"):
            pool.AddSerializedFile(parsed(SHOP).file_descriptor.pool.FindFileByName(path).serialized_pb)
        meta = parsed(SHOP).file_descriptor.pool.FindFileByName("confluent/meta.proto")
        pool.AddSerializedFile(meta.serialized_pb)

        added = pool.AddSerializedFile(file.SerializeToString())

        assert list(file.dependency) == ["google/protobuf/timestamp.proto", "confluent/meta.proto"]
        assert list(file.public_dependency) == []
        assert [field.name for field in added.message_types_by_name["Order"].fields] == [
            *("id", "placed", "counts", "card", "voucher")
        ]

    def test_a_descriptor_from_here_is_the_whole_schema_again(self) -> None:
        given = parsed(SHOP).formatted("serialized")

        assert parsed(given).canonical_text == SHOP
        assert parsed(given).formatted("serialized") == given

    def test_a_descriptor_with_another_text_along_is_what_it_says_itself(self) -> None:
        file = FileDescriptorProto.FromString(base64.b64decode(parsed(SHOP).formatted("serialized")))
        file.message_type[0].field[0].name = "other"
        given = base64.b64encode(file.SerializeToString()).decode()

        assert "string other = 1 [deprecated = true];" in parsed(given).canonical_text
        assert "validate" not in parsed(given).canonical_text
        assert parsed(given).incompatibilities(parsed(SHOP)) == []

    @pytest.mark.parametrize(
        "unknown",
        [
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x02\xff\xfe", id="no text"),
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x01 ", id="a blank one"),
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x04AAAA", id="a descriptor"),
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x01;", id="of another schema"),
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x05enum;", id="of no schema"),
            pytest.param(b"\x88\xc7\xff\xff\x0f\x05", id="a number"),
            pytest.param(b"\x8a\xc7\xff\xff\x0f\x01;" * 2, id="two"),
        ],
    )
    def test_a_descriptor_with_no_text_along_is_what_it_says_itself(self, unknown: bytes) -> None:
        file = FileDescriptorProto(name="m.proto", syntax="proto3").SerializeToString() + unknown

        assert parsed(base64.b64encode(file).decode()).canonical_text == 'syntax = "proto3";\n'

    def test_the_text_without_extensions_has_no_options_of_missing_files(self) -> None:
        text = parsed(SHOP).formatted("ignore_extensions")

        assert '[(confluent.field_meta) = {doc: "when"}]' in text
        assert "rules" not in text
        assert parsed(text).incompatibilities(parsed(SHOP)) == []

    def test_a_descriptor_may_come_with_imports_that_are_missing(self) -> None:
        file = FileDescriptorProto(name="m.proto", package="p", syntax="proto3", dependency=["o.proto"])
        file.message_type.add(name="M")
        file.message_type[0].options.MergeFromString(b"\x80\xea\x30\x01")  # an unknown extension

        schema = parsed(base64.b64encode(file.SerializeToString()).decode())

        assert (
            schema.canonical_text == 'syntax = "proto3";\npackage p;\n\nimport "o.proto";\n\nmessage M {\n}\n'
        )

    def test_uninterpreted_options_of_a_client_are_not_written(self) -> None:
        file = FileDescriptorProto(name="m.proto", syntax="proto3", dependency=["o.proto"])
        option = file.message_type.add(name="M").options.uninterpreted_option.add(aggregate_value="} evil {")
        option.name.add(name_part="x); } message Evil {", is_extension=True)

        assert "vil" not in parsed(base64.b64encode(file.SerializeToString()).decode()).canonical_text

    def test_an_import_that_nothing_needs_may_be_missing(self) -> None:
        assert parsed('syntax = "proto3"; import weak "x/y.proto"; message M {}').name == "M"

    def test_options_of_extension_ranges_groups_and_extensions(self) -> None:
        text = """\
syntax = "proto2";
package p;

import "o.proto";

extend M {
  optional int32 e = 100 [(q.on) = "extension"];
}

message M {
  optional group Inner = 1 [(q.on) = "group"] {
    option (q.message) = 1;

    repeated int32 a = 1 [packed = true, (q.on) = "field"];
  }

  extensions 100 to 199 [(q.range) = {a: 1}];
}
"""
        assert parsed(text).canonical_text == text
        assert parsed(parsed(text).normalized()).normalized() == parsed(text).normalized()

    def test_a_schema_without_a_syntax_keeps_its_options_and_places_of_errors(self) -> None:
        text = 'import "o.proto";\nmessage M {\n  optional int32 a = 1 [(q.x) = {\n a: 1 }];'

        assert "(q.x) = {a: 1}" in parsed(text + "}").canonical_text
        assert refusal(text + "  optional Gone b = 2; }").startswith("line 4, ")

    def test_options_of_a_referenced_file_may_be_missing_too(self) -> None:
        inner = 'syntax = "proto3"; package q; import "o.proto"; message N { int32 n = 1 [(z.rules).x = 1]; }'

        schema = parsed('syntax = "proto3"; import "n.proto"; message M { q.N n = 1; }', {"n.proto": inner})

        assert schema.canonical_text == (
            'syntax = "proto3";\n\nimport "n.proto";\n\nmessage M {\n  q.N n = 1;\n}\n'
        )

    def test_declared_options_are_interpreted_all_the_same(self) -> None:
        text = """\
syntax = "proto2";
package p.q;

import "google/protobuf/descriptor.proto";
import "o.proto";

message M {
  optional int32 a = 1 [(mine) = 16, (p.Scope.nested) = {name: "x"}, (theirs) = 16];
}

message Scope {
  optional string name = 1;

  extend google.protobuf.FieldOptions {
    optional Scope nested = 50001;
  }
}

extend google.protobuf.FieldOptions {
  optional int32 mine = 50000;
}
"""
        printed = parsed(text.replace("p.Scope", "Scope").replace("= 16", "= 0x10")).canonical_text

        assert '(mine) = 16, (Scope.nested) = {name: "x"}, (theirs) = 16];' in printed
        assert parsed(printed).canonical_text == printed
        assert 'Enum type "int32"' not in refusal(
            text.replace("(mine) = 16", '(mine) = "text"').replace("p.S", "S")
        )
        assert "mine" in refusal(text.replace("(mine) = 16", '(mine) = "text"').replace("p.S", "S"))


DECLARED = """
    syntax = "proto2"; package q; import "google/protobuf/descriptor.proto";
    enum Color { RED = 0; BLUE = 5; }
    message Rules {
      optional int64 least = 1; repeated string words = 2; map<string, double> by_name = 3;
      optional Rules inner = 4; optional Color color = 5; optional bytes raw = 6; optional bool flag = 7;
      optional group Deep = 8 { optional float part = 1; }
      extensions 100 to 200; extend Rules { optional Rules more = 100; }
    }
    extend google.protobuf.FieldOptions {
      optional Rules rules = 50000; repeated int32 numbers = 50001; optional double real = 50002;
      optional string text = 50003; optional bytes raw = 50004; optional Color color = 50005;
      optional uint64 big = 50006; optional bool flag = 50007; optional int64 low = 50008;
    }
"""
OPTIONS = [
    *("(q.big) = 18446744073709551615", "(q.low) = -9223372036854775808", "(q.big) = 0XfF", "(q.big) = 017"),
    *("(q.real) = 1", "(q.real) = -1.5e-3", "(q.real) = inf", "(q.real) = -inf", "(q.real) = nan"),
    *("(q.real) = 1e400", "(q.real) = .5", "(q.real) = 12345678901234567890123"),
    *('(q.text) = "it\'s"', "(q.text) = 'say \"x\"' \" and\\n\" 'y'", '(q.text) = "\\u00e9\\t\\x41\\101"'),
    *('(q.text) = "é // no /* comment ] ; }"', '(q.raw) = "\\000\\377\\xfe"', "(q.text) = ''"),
    *("(q.color) = BLUE", "(q.flag) = true", "(q.numbers) = 1, (q.numbers) = 2", "(.q.flag) = false"),
    *(
        "(q.rules).least = 5",
        '(q.rules).words = "a", (q.rules).words = "b"',
        "(q.rules).inner.inner.flag = true",
    ),
    *("(q.rules).(q.Rules.more).least = 3", "(q.rules).deep.part = 0.5", "(q.rules) = {}"),
    "(q.rules) = { least: -7 words: 'a' words: [\"b\", 'c' 'd'], color: BLUE; flag: true, raw: \"\\376\" }",
    "(q.rules) = { inner { inner < least: 1 > } Deep { part: 1.5 } }",
    '(q.rules) = { by_name: { key: "k" value: -inf } by_name: [{key: "l", value: 1e3}] words: [] }',
    "(q.rules) = { [q.Rules.more]: { least: 0x10 } }",
    "(q.rules) = { [q.Rules.more] { least: -  5 } }",
]


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_carried_means_the_same_to_protoc(option: str) -> None:
    declared = {"o.proto": DECLARED}
    carried = parsed(with_option(option)).canonical_text

    assert parsed(carried).canonical_text == carried
    assert "(" in carried
    assert parsed(carried, declared).canonical_text == parsed(with_option(option), declared).canonical_text


class TestRefused:
    @pytest.mark.parametrize(
        "body",
        [
            "message M { o.Type a = 1; }",
            "message M { map<string, o.Type> a = 1; }",
            "service S { rpc R (o.Type) returns (o.Type); }",
            "message M { o.Type a = 1 [(o.rules) = 1]; }",
        ],
    )
    def test_a_type_of_a_missing_import_is_refused_with_the_import(self, body: str) -> None:
        message = refusal(f'syntax = "proto3"; import "dir/o.proto"; {body}')

        assert '"o.Type"' in message
        assert 'no reference gives the imports "dir/o.proto"' in message

    def test_a_type_of_a_reference_s_missing_import_is_refused(self) -> None:
        inner = 'syntax = "proto3"; import "o.proto"; message N { o.Type n = 1; }'

        message = refusal('syntax = "proto3"; import "n.proto"; message M { N n = 1; }', {"n.proto": inner})

        assert message.startswith("in n.proto: ")
        assert '"o.proto"' in message

    def test_an_option_that_no_import_could_declare_is_refused(self) -> None:
        assert "unknown" in refusal('syntax = "proto3"; message M { int32 a = 1 [(q.x) = 1]; }')

    @pytest.mark.parametrize(
        "option",
        [
            *("(q.x)", "(q.x) =", "(q.x) = ]", "(q.x) = [1]", "(q.x) = {a: }", "(q.x) = {a 1}", "(q.x) = {"),
            *("(q.x) = {a: [1 2]}", "(q.x) = 1 2", "(q.) = 1", "() = 1", "(q.x). = 1", "(q.x) = {: 1}"),
            *("(q.x) = - -1", "(q.x) = 1,", "(q.x) = $", '(q.x) = "\\', "unknown = 1", "(q.x) = {a: #}"),
        ],
    )
    def test_what_is_no_option_is_refused(self, option: str) -> None:
        assert refusal(with_option(option))

    def test_options_are_bounded(self) -> None:
        assert "nested" in refusal(with_option("(q.x) = " + "{a: " * 60 + "1" + "}" * 60))
        assert "nested" in refusal(with_option("(q.x) = {a: " + "[" * 60 + "1" + "]" * 60 + "}"))
        assert "too large" in refusal(with_option("(q.x) = {" + "a: 1 " * 60_000 + "}"))
        assert "parts" in refusal(with_option("(" + "a." * 60 + "a) = 1"))

    @pytest.mark.parametrize(
        "hostile", ["import " * 90_000, "/*" + "import ' " * 150_000 + "*/", "// " + "carried_" * 100_000]
    )
    def test_a_large_hostile_text_is_read_or_refused(self, hostile: str) -> None:
        text = with_option("(q.x) = 1") + "\n" + hostile

        try:
            assert "(q.x) = 1" in parsed(text).canonical_text
        except InvalidSchema as refused:
            assert "line 2" in str(refused) or "too large" in str(refused)


def test_all_kinds_of_options_and_places_at_once() -> None:
    """Each option of a large schema stays at its element, in its order."""
    fields = " ".join(
        f'int32 f{number} = {number} [(q.a).n = {number}, json_name = "j{number}", (q.b) = {{n: {number}}}];'
        for number in range(1, 200)
    )
    nested = " ".join(
        f"message N{one}{other} {{ option (q.m) = {one}{other}; enum E {{ Z = 0 [(q.v) = {other}]; }} }}"
        for one, other in product(range(5), range(5))
    )
    schema = parsed(f'syntax = "proto3"; import "o.proto"; message M {{ {fields} {nested} }}')

    text = schema.canonical_text

    for number in range(1, 200):
        options = f'json_name = "j{number}", (q.a).n = {number}, (q.b) = {{n: {number}}}'
        assert f"int32 f{number} = {number} [{options}];" in text
    assert text.count("option (q.m) = ") == 25
    assert parsed(text).canonical_text == text
