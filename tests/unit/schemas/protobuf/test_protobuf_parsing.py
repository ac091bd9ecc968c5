"""Protobuf schemas as they come in: texts, descriptors in base64, imports, and what is refused."""

from __future__ import annotations

import base64
import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import weakref
from pathlib import Path

import pytest
from confluent_kafka.schema_registry.common.protobuf import _init_pool, _schema_to_str
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from ottla.schemas.format import InvalidSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType
from ottla.schemas.protobuf import compiler
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema

ORDER = """\
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";

message Order {
  string id = 1;
  repeated Line lines = 2;
  map<string, int32> counts = 3;
  google.protobuf.Timestamp placed = 4;
  optional string note = 5;

  message Line {
    string product = 1;
    uint32 quantity = 2;
  }
}

message Refund {
  Order order = 1;
}
"""


def parsed(text: str, references: dict[str, str] | None = None) -> ProtobufSchema:
    return ProtobufFormat().parse(text, references or {})


def refusal(text: str, references: dict[str, str] | None = None) -> str:
    with pytest.raises(InvalidSchema) as refused:
        parsed(text, references)
    return str(refused.value)


def in_base64(text: str, references: dict[str, str] | None = None) -> str:
    return parsed(text, references).formatted("serialized")


def descriptor_of(schema: ProtobufSchema) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))


class TestTexts:
    def test_the_format_is_found_by_its_type(self) -> None:
        assert isinstance(format_of(SchemaType.PROTOBUF), ProtobufFormat)
        assert format_of(SchemaType.PROTOBUF).schema_type is SchemaType.PROTOBUF

    def test_a_text_in_our_layout_is_its_own_canonical_text(self) -> None:
        assert parsed(ORDER).canonical_text == ORDER

    def test_texts_that_differ_in_layout_and_comments_are_one_schema(self) -> None:
        other = (
            '// ours\nsyntax="proto3";import"google/protobuf/timestamp.proto";package shop;'
            "message Order{string id=1;/* many */ repeated Order.Line lines=2;map<string,int32>counts=3;"
            ".google.protobuf.Timestamp placed=4; optional string note=5;"
            "message Line{string product=1;uint32 quantity=2;}}message Refund{"
            "shop.Order order=1;}"
        )

        assert parsed(other).canonical_text == ORDER

    def test_the_name_is_that_of_the_first_message(self) -> None:
        assert parsed(ORDER).name == "shop.Order"
        assert parsed('syntax = "proto3"; message M {}').name == "M"
        assert parsed('syntax = "proto3"; enum E { A = 0; }').name is None

    def test_a_text_without_a_syntax_is_proto2_and_nothing_is_printed(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        schema = parsed("message M { required int32 a = 1; }")

        assert schema.canonical_text.startswith('syntax = "proto2";\n')
        assert capfd.readouterr() == ("", "")

    def test_a_string_before_the_syntax_prints_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        refusal('"" syntax = "proto3"; message M {}')
        parsed('/* a */ // b\n /**/ syntax = "proto3"; message M {}')

        assert capfd.readouterr() == ("", "")

    def test_unused_imports_and_errors_print_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        parsed('syntax = "proto3"; import "google/protobuf/any.proto"; message M {}')
        refusal("message {")

        assert capfd.readouterr() == ("", "")

    def test_a_byte_order_mark_is_skipped(self) -> None:
        assert parsed("\ufeff" + ORDER).canonical_text == ORDER

    def test_text_beyond_ascii_stays_in_strings(self) -> None:
        schema = parsed(
            'syntax = "proto2"; message M { optional string a = 1 [default = "größer\\n\\"€\\""]; }'
        )

        assert '[default = "größer\\n\\"€\\""]' in schema.canonical_text

    def test_editions_that_protoc_knows(self) -> None:
        schema = parsed('edition = "2023"; message M { int32 a = 1 [features.field_presence = IMPLICIT]; }')

        assert schema.canonical_text == (
            'edition = "2023";\n\nmessage M {\n  int32 a = 1 [features.field_presence = IMPLICIT];\n}\n'
        )

    def test_no_directory_is_left_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compiler, "_IN_MEMORY", str(tmp_path))

        before = tmp_path.stat().st_mtime_ns

        parsed(ORDER)
        refusal("message M {")

        assert os.listdir(tmp_path) == []
        assert tmp_path.stat().st_mtime_ns > before

    def test_the_files_are_elsewhere_where_there_is_no_memory_for_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compiler, "_IN_MEMORY", str(tmp_path / "missing"))

        assert parsed(ORDER).name == "shop.Order"


class TestDescriptors:
    """Python's serializer registers a descriptor in base64; the schema is the same one."""

    def test_a_descriptor_is_the_same_schema_as_its_text(self) -> None:
        assert parsed(in_base64(ORDER)).canonical_text == ORDER

    def test_what_confluents_serializer_sends_is_taken(self) -> None:
        schema = parsed(_schema_to_str(timestamp_pb2.DESCRIPTOR))

        assert schema.name == "google.protobuf.Timestamp"
        assert 'option java_package = "com.google.protobuf";' in schema.canonical_text

    def test_line_breaks_in_base64_are_skipped(self) -> None:
        lines = "\r\n".join(textwrap.wrap(in_base64(ORDER), 76)) + "\n"

        assert parsed(lines).canonical_text == ORDER

    def test_a_reference_may_be_a_descriptor_or_a_text(self) -> None:
        line = 'syntax = "proto3"; package shop; message Line { string product = 1; }'
        order = 'syntax = "proto3"; package shop; import "shop/line.proto"; message Order { Line line = 1; }'
        references = {"shop/line.proto": line}
        sent = {"shop/line.proto": in_base64(line)}

        texts = {
            parsed(text, used).canonical_text
            for text in (order, in_base64(order, references))
            for used in (references, sent)
        }

        assert len(texts) == 1

    def test_custom_options_of_a_descriptor_are_told(self) -> None:
        text = """
            syntax = "proto3"; package p;
            import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
            extend google.protobuf.MessageOptions { string owner = 50001; }
            message M {
              option (owner) = "us";
              string a = 1 [(confluent.field_meta) = {
                doc: "x" tags: ["PII"] params: [{ key: "k" value: "v" }]
              }];
            }
        """

        told = parsed(in_base64(text)).canonical_text

        assert (
            '[(confluent.field_meta) = {doc: "x", params: [{key: "k", value: "v"}], tags: ["PII"]}]' in told
        )
        assert 'option (owner) = "us";' in told
        assert told == parsed(text).canonical_text

    def test_the_serialized_form_is_read_by_confluents_deserializer(self) -> None:
        file = descriptor_of(parsed(ORDER))
        file.name = "default"
        pool = DescriptorPool()
        _init_pool(pool)

        pool.Add(file)

        found = pool.FindFileByName("default")
        assert list(found.message_types_by_name) == ["Order", "Refund"]

    @pytest.mark.parametrize("text", ["Zm9v", "AAAA", "/w==", "Cg==", "A", "abcd=="])
    def test_base64_of_something_else_is_refused(self, text: str) -> None:
        assert refusal(text) == "neither a .proto text nor a FileDescriptorProto in base64"

    @pytest.mark.parametrize(
        "change",
        [
            "message_type { name: 'M { } message N' }",
            "message_type { name: '' }",
            "package: 'a b'",
            "syntax: 'proto9'",
            "syntax: 'editions'",
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_MESSAGE type_name: '.Gone' } }",
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_INT32 "
            "default_value: '1]; evil' } }",
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_INT32 oneof_index: 7 } }",
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_GROUP "
            "type_name: '.M.A' label: LABEL_OPTIONAL } }",
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_BYTES default_value: '\\\\' } }",
            "message_type { name: 'M' nested_type { name: 'E' options { map_entry: true } } "
            "field { name: 'e' number: 1 type: TYPE_MESSAGE type_name: '.M.E' label: LABEL_REPEATED } }",
            "dependency: '../../etc/passwd'",
            "dependency: 'a\"; message X {'",
        ],
    )
    def test_a_descriptor_that_is_no_schema_is_refused(self, change: str) -> None:
        from google.protobuf import text_format

        file = text_format.Parse(change, descriptor_pb2.FileDescriptorProto())

        refusal(base64.b64encode(file.SerializeToString()).decode())

    @pytest.mark.filterwarnings("ignore::grpc_tools._protoc_compiler.ProtocWarning")
    def test_names_that_are_no_utf8_are_refused(self) -> None:
        reserved = 'syntax = "proto2"; message M { reserved "\\200"; }'
        assert refusal(reserved) == "the reserved name b'\\x80' is no UTF-8"
        refusal(base64.b64encode(b"\x22\x04\x0a\x02\xff\xfe").decode())  # message_type { name: <ff fe> }


class TestErrors:
    def test_an_error_has_its_line_and_column(self) -> None:
        assert (
            refusal('syntax = "proto3";\nmessage M {\n  string a = 1\n}') == 'line 4, column 1: Expected ";".'
        )

    def test_the_place_is_right_where_the_syntax_is_left_out(self) -> None:
        assert refusal("message M { optional Gone a = 1; }") == 'line 1, column 22: "Gone" is not defined.'

    def test_several_errors_are_told_and_many_counted(self) -> None:
        message = refusal(
            'syntax = "proto3"; message M { ' + "".join(f"X{n} a{n} = {n};" for n in range(1, 9)) + "}"
        )

        assert message.count("is not defined") == 5
        assert message.endswith("and 3 more errors")

    def test_an_error_in_a_reference_says_so(self) -> None:
        message = refusal('syntax = "proto3"; import "b.proto"; message M {}', {"b.proto": "message N {"})

        assert message.startswith("in b.proto: line 1, column 12: ")

    def test_a_missing_import_of_a_type_is_named(self) -> None:
        message = refusal('syntax = "proto3"; import "missing.proto"; message M { Gone a = 1; }')

        assert "Gone" in message
        assert "missing.proto" in message

    @pytest.mark.parametrize("text", ["", "   \n\t"])
    def test_nothing_is_no_schema(self, text: str) -> None:
        assert refusal(text) == "the schema is empty"

    @pytest.mark.parametrize(
        "text",
        [
            "not a schema",
            '{"type": "record"}',
            "message M { optional int32 a = 0; }",
            "message M { optional int32 a = 1; optional int32 b = 1; }",
            "message M { reserved 1; optional int32 a = 1; }",
            "message M {} message M {}",
            'syntax = "proto3"; enum E { A = 1; }',
            'syntax = "proto3"; message M { required int32 a = 1; }',
            'syntax = "proto4"; message M {}',
            'edition = "2999"; message M {}',
            'syntax = "proto3"; message M { string a = 1 [(unknown) = 1]; }',
            "message M { optional int32 a = 99999999999999999999; }",
            "\ud800 message M {}",
            '// \ud800\nsyntax = "proto3"; message M {}',
            "message M { \x01 }",
            'option java_package = "\0"; message M {}',
        ],
    )
    def test_what_protoc_refuses_is_invalid(self, text: str) -> None:
        assert refusal(text)


class TestImports:
    def test_references_of_references(self) -> None:
        references = {
            "c.proto": 'syntax = "proto3"; package c; message C { int32 c = 1; }',
            "dir/b.proto": 'syntax = "proto3"; package b; import "c.proto"; message B { c.C c = 1; }',
        }

        schema = parsed('syntax = "proto3"; import "dir/b.proto"; message A { b.B b = 1; }', references)

        assert schema.message_class((0,)).DESCRIPTOR.fields_by_name["b"].message_type.full_name == "b.B"

    def test_a_reference_may_have_any_name(self) -> None:
        text = 'syntax = "proto3"; package {0}; message {1} {{}}'
        names = {
            "default": "D",
            "default/x": "X",
            "imports": "I",
            "größe@1.proto": "G",
            "com.example.Thing": "T",
        }
        for name, message in names.items():
            if name != "default/x":
                main = f'syntax = "proto3"; import "{name}"; message M {{ a.{message} f = 1; }}'
                assert parsed(main, {name: text.format("a", message)}).name == "M"

    def test_a_public_import_is_passed_on(self) -> None:
        references = {
            "c.proto": 'syntax = "proto3"; package c; message C {}',
            "b.proto": 'syntax = "proto3"; import public "c.proto";',
        }

        assert parsed('syntax = "proto3"; import "b.proto"; message A { c.C c = 1; }', references).name == "A"

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("google/protobuf/any.proto", "google.protobuf.Any"),
            ("google/protobuf/struct.proto", "google.protobuf.Struct"),
            ("google/protobuf/wrappers.proto", "google.protobuf.Int32Value"),
            ("google/type/money.proto", "google.type.Money"),
            ("google/type/datetime.proto", "google.type.DateTime"),
            ("confluent/meta.proto", "confluent.Meta"),
            ("confluent/type/decimal.proto", "confluent.type.Decimal"),
            ("confluent/types/decimal.proto", "confluent.type.Decimal"),
            ("confluent/type/variant.proto", "confluent.type.Variant"),
        ],
    )
    def test_known_types_need_no_reference(self, path: str, name: str) -> None:
        assert parsed(f'syntax = "proto3"; import "{path}"; message M {{ {name} a = 1; }}').name == "M"

    @pytest.mark.parametrize("module", [meta_pb2, decimal_pb2, variant_pb2])
    def test_confluents_types_are_those_of_its_client(self, module: object) -> None:
        theirs = module.DESCRIPTOR  # type: ignore[attr-defined] # a generated module
        ours = parsed(f'syntax = "proto3"; import "{theirs.name}"; message M {{}}').file_descriptor.pool

        expected, found = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
        theirs.CopyToProto(expected)
        ours.FindFileByName(theirs.name).CopyToProto(found)
        expected.ClearField("options")

        assert found == expected

    def test_a_reference_never_replaces_a_file_that_protoc_relies_on(self) -> None:
        text = (
            'syntax = "proto3"; import "google/protobuf/timestamp.proto"; '
            "message M { google.protobuf.Timestamp a = 1; }"
        )
        evil = {
            "google/protobuf/timestamp.proto": 'syntax = "proto3"; package google.protobuf; message Evil {}'
        }

        assert parsed(text, evil).canonical_text == parsed(text).canonical_text

    def test_a_reference_may_bring_its_own_version_of_other_known_types(self) -> None:
        own = {"confluent/type/decimal.proto": 'syntax = "proto3"; package mine; message Decimal {}'}

        assert parsed(
            'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { mine.Decimal a = 1; }', own
        )

    @pytest.mark.parametrize(
        "path",
        [
            "/etc/passwd",
            "../../../../../../etc/passwd",
            "a/../../etc/passwd",
            "./x",
            "a//b",
            "",
            "a\\\\b",
            "\\000",
        ],
    )
    def test_imports_read_no_file_of_the_machine(self, path: str) -> None:
        refusal(f'syntax = "proto3"; import "{path}"; message M {{}}')

    @pytest.mark.parametrize(
        "name",
        [
            "/tmp/evil.proto",
            "../evil.proto",
            "a/../../evil.proto",
            "a\0b",
            "",
            ".",
            "a//b",
            "x" * 5000,
            "a\nb",
            "\ud800",
            'a"b',
        ],
    )
    def test_references_write_no_file_of_the_machine(self, name: str, tmp_path: Path) -> None:
        evil = 'syntax = "proto3"; message Evil {}'

        assert parsed('syntax = "proto3"; message M {}', {name: evil}).name == "M"
        assert not Path("/tmp/evil.proto").exists()
        assert not (Path(tempfile.gettempdir()) / "evil.proto").exists()

    def test_a_reference_in_place_of_a_directory_is_refused(self) -> None:
        text = 'syntax = "proto3"; message X {}'

        assert "directory" in refusal('syntax = "proto3"; message M {}', {"a": text, "a/b": text})
        assert "directory" in refusal('syntax = "proto3"; message M {}', {"a/b": text, "a": text})

    def test_files_that_import_each_other_are_refused(self) -> None:
        references = {"a.proto": 'import "b.proto";', "b.proto": 'import "a.proto";'}

        assert "recursively imports" in refusal(
            'syntax = "proto3"; import "a.proto"; message M {}', references
        )


class TestForms:
    def test_normal_form_has_an_order_and_full_names(self) -> None:
        one = parsed(
            """
            syntax = "proto3"; package p;
            import "google/protobuf/timestamp.proto"; import "google/protobuf/any.proto";
            message M { N n = 2; google.protobuf.Any a = 1; google.protobuf.Timestamp t = 3; reserved 9, 7; }
            message N {} enum F { B = 0; D = 2; C = 1; } enum E { A = 0; }
            """
        )
        other = parsed(
            """
            syntax = "proto3"; package p;
            import "google/protobuf/any.proto"; import "google/protobuf/timestamp.proto";
            message M { reserved 7, 9; google.protobuf.Any a = 1; N n = 2; google.protobuf.Timestamp t = 3; }
            message N {} enum E { A = 0; } enum F { B = 0; C = 1; D = 2; }
            """
        )

        assert one.canonical_text != other.canonical_text
        assert one.normalized() == other.normalized()
        assert ".p.N n = 2;" in one.normalized()
        assert parsed(one.normalized()).normalized() == one.normalized()

    def test_normal_form_keeps_the_default_of_an_enum_and_the_places_of_messages(self) -> None:
        schema = parsed(
            """
            syntax = "proto2";
            message Z { map<string, Y> b = 2; message Y {} map<string, Y> a = 1; message X {} }
            message A { enum E { SECOND = 2; FIRST = 1; } }
            """
        )
        normal = parsed(schema.normalized())

        assert [message.name for message in normal.file_descriptor.message_types_by_name.values()] == [
            "Z",
            "A",
        ]
        assert normal.index_path("Z.Y") == schema.index_path("Z.Y") == (0, 1)
        assert normal.index_path("Z.X") == schema.index_path("Z.X") == (0, 3)
        assert normal.normalized() == schema.normalized()
        assert [
            value.name for value in normal.file_descriptor.message_types_by_name["A"].enum_types[0].values
        ] == [
            "SECOND",
            "FIRST",
        ]

    def test_a_form_without_extensions(self) -> None:
        schema = parsed(
            """
            syntax = "proto2"; import "google/protobuf/descriptor.proto";
            extend google.protobuf.FieldOptions { optional int32 w = 50000; optional group G = 50001 {} }
            message M { optional int32 a = 1 [(w) = 1, deprecated = true]; extensions 5;
              extend M { optional int32 e = 5; } }
            """
        )

        text = schema.formatted("ignore_extensions")

        assert "extend " not in text
        assert "(w)" not in text
        assert "optional int32 a = 1 [deprecated = true];" in text
        assert parsed(text).name == "M"

    def test_an_unknown_form_is_the_canonical_one(self) -> None:
        assert parsed(ORDER).formatted("resolved") == ORDER
        assert parsed(ORDER).formatted("") == ORDER


class TestMessages:
    def test_messages_by_their_index_paths(self) -> None:
        schema = parsed(ORDER)

        assert schema.message_class((0,)).DESCRIPTOR.full_name == "shop.Order"
        assert schema.message_class((0, 0)).DESCRIPTOR.full_name == "shop.Order.CountsEntry"
        assert schema.message_class([0, 1]).DESCRIPTOR.full_name == "shop.Order.Line"
        assert schema.message_class((1,)).DESCRIPTOR.full_name == "shop.Refund"
        assert schema.index_path("shop.Order") == (0,)
        assert schema.index_path("shop.Order.Line") == (0, 1)
        assert schema.index_path("shop.Refund") == (1,)

    @pytest.mark.parametrize("path", [(), (2,), (0, 9), (-1,), (0, -1), (1, 0)])
    def test_a_path_to_nothing(self, path: tuple[int, ...]) -> None:
        with pytest.raises(LookupError):
            parsed(ORDER).message_class(path)

    @pytest.mark.parametrize(
        "name", ["Order", "shop.Gone", "", "google.protobuf.Timestamp", "shop.Order.id", "."]
    )
    def test_a_name_of_nothing(self, name: str) -> None:
        with pytest.raises(LookupError):
            parsed(ORDER).index_path(name)

    def test_a_message_is_written_and_read(self) -> None:
        order = parsed(ORDER).message_class((0,))
        written = order(id="o-1", note="soon")
        written.lines.add(product="tea", quantity=3)

        read = parsed(ORDER).message_class((0,)).FromString(written.SerializeToString())

        assert read.lines[0].quantity == 3
        assert read.note == "soon"

    def test_two_schemas_of_one_name_live_side_by_side(self) -> None:
        one = parsed('syntax = "proto3"; package p; message M { int32 a = 1; }')
        two = parsed('syntax = "proto3"; package p; message M { string a = 1; }')

        assert one.message_class((0,))(a=1).a == 1
        assert two.message_class((0,))(a="x").a == "x"

    def test_the_memory_of_a_schema_is_freed_with_it(self) -> None:
        schema = parsed(ORDER)
        message = weakref.ref(schema.message_class((0,)))

        del schema
        gc.collect()

        assert message() is None


class TestCosts:
    """Texts made to end the process or to keep it busy; most of them did before there were limits."""

    OPTION = (
        'import "google/protobuf/descriptor.proto"; message R { optional R r = 1; } '
        "extend google.protobuf.FileOptions { optional R x = 50000; } option (x)"
    )

    @pytest.mark.parametrize(
        "text",
        [
            OPTION + " = " + "{r:" * 30_000 + "{}" + "}" * 30_000 + ";",
            OPTION + " = {" + "r<" * 30_000 + ">" * 30_000 + "};",
            OPTION + " = {" + "r<'}' /*}*/ \"}\"\n//}\n" * 200 + "};",
            OPTION + ".r" * 30_000 + " = {};",
            OPTION + " /**/.r" * 99 + " = {};",
            OPTION + ' = {"\0' + "{r:" * 30_000 + '"};',
            OPTION + ' = {"\n}}}}}' + "{r:" * 100,
            OPTION + " = {/* /* }}}} */" + "{r:" * 100,
            "message A {" + "optional group G = 1 {" * 30_000 + "}" * 30_000 + "}",
            "message A {" * 30_000,
            "message A { reserved " + ", ".join(str(2 * number + 1) for number in range(100_000)) + "; }",
            "message A {" + "X;" * 200_000 + "}",
            "}" * 200_000,
            "/*" * 500_000,
            "é" * 500_000,
            'message M { optional string a = 1 [default = "' + "x" * (3 << 20) + '"]; }',
            "A" * (4 << 20),
            base64.b64encode(b"\x22\x03\x0a\x01A" * 200_000).decode(),
        ],
        ids=lambda text: text[:40],
    )
    def test_what_costs_too_much_is_refused(self, text: str) -> None:
        assert len(refusal(text)) < 2000

    def test_references_count_as_well(self) -> None:
        many = 'syntax = "proto3"; message M { ' + "".join(f"int32 a{n} = {n};" for n in range(1, 9000)) + "}"

        assert "too large" in refusal(
            'syntax = "proto3"; message A {}', dict.fromkeys(("a.proto", "b.proto", "c.proto"), many)
        )

    def test_messages_nested_as_deep_as_protoc_allows(self) -> None:
        depth = 31
        text = 'syntax = "proto3"; ' + "".join(f"message M{n} {{ " for n in range(depth)) + "}" * depth

        assert parsed(parsed(text).canonical_text).canonical_text == parsed(text).canonical_text
        refusal('syntax = "proto3"; ' + "message M {" * 40 + "}" * 40)

    def test_a_descriptor_nested_too_deep(self) -> None:
        nested = b"\x0a\x01A"
        for _ in range(200):
            nested = b"\x0a\x01A\x1a" + _varint(len(nested)) + nested

        refusal(base64.b64encode(b"\x22" + _varint(len(nested)) + nested).decode())

    def test_importing_the_format_changes_no_import_machinery(self) -> None:
        script = (
            "import sys; before = (list(sys.meta_path), list(sys.path))\n"
            "from ottla.schemas.protobuf.protobuf_format import ProtobufFormat\n"
            "ProtobufFormat().parse('message M {}', {})\n"
            "assert before == (list(sys.meta_path), list(sys.path))\n"
        )

        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
