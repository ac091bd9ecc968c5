"""Bad Protobuf schemas: each is refused, and none ends the process.

protoc is C++ in our process, so the schemas are parsed in a child: one that dies is a failing example. Before
there were limits, some kilobytes of braces were enough.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.schemas.protobuf.protobuf_format import ProtobufFormat
from support.exploration import examples

CHILD = """
import json, sys
from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat
for line in sys.stdin:
    asked = json.loads(line)
    try:
        schema = ProtobufFormat().parse(asked["text"], asked["references"])
        again = ProtobufFormat().parse(schema.canonical_text, asked["references"])
        assert again.canonical_text == schema.canonical_text
        for name in ("serialized", "ignore_extensions"):
            schema.formatted(name)
        normal = ProtobufFormat().parse(schema.normalized(), asked["references"])
        assert normal.normalized() == schema.normalized()
        again.incompatibilities(schema)
        answer = "ok"
    except InvalidSchema as refused:
        answer = "invalid" if str(refused) else "no reason"
    except Exception as error:
        answer = repr(error)
    print(json.dumps(answer), flush=True)
"""

SEEDS = [
    """
    syntax = "proto3"; package p.q; import "google/protobuf/timestamp.proto"; import "b.proto";
    option java_package = "x";
    message M {
      string a = 1; map<string, int32> m = 2; repeated b.B c = 3;
      oneof o { int32 d = 4; M e = 5; }
      optional E f = 6; google.protobuf.Timestamp t = 7 [deprecated = true];
      reserved 10 to 20, 30; reserved "old"; enum E { A = 0; B = 1; } message N { N n = 1; }
    }
    service S { rpc R (M) returns (stream M); }
    """,
    """
    syntax = "proto2"; import "google/protobuf/descriptor.proto";
    message Opt { optional Opt o = 1; repeated int32 n = 2; extensions 10 to max; }
    extend google.protobuf.FieldOptions { optional Opt opt = 50000; }
    extend Opt { optional double d = 10 [default = -1.5e10]; }
    message M {
      required bytes a = 1 [default = "\\377\\"", (opt) = { o: { n: [1, 2] } [d]: inf }];
      optional group G = 2 { optional int32 b = 1; } extensions 100 to 200;
    }
    """,
    """
    edition = "2023"; package e; import public "b.proto"; option features.field_presence = IMPLICIT;
    message M {
      int32 a = 1 [features.field_presence = EXPLICIT, default = 5, json_name = "z"];
      b.B m = 2 [features.message_encoding = DELIMITED]; reserved foo, bar;
    } // the end
    /* of all */
    """,
    """
    syntax = "proto3"; package v; import "validate/validate.proto"; import "google/api/annotations.proto";
    option (gogoproto.all) = false; import "b.proto"; import "google/protobuf/descriptor.proto";
    extend google.protobuf.FieldOptions { b.B mine = 50000; }
    message M {
      option (validate.ignored) = -1.5e3;
      oneof o { option (validate.required) = true; b.B b = 1 [(mine).x = 1]; }
      string a = 2 [(v.rules).string = {len: 1 in: ["a", 'b' "c"]; sub <x {}> [q.e]: inf}, deprecated = true];
      enum E { A = 0 [(x.name) = "y\\n"]; }
    }
    service S { rpc R (M) returns (M) { option (google.api.http) = { get: "/v1/{a}" /* } */ }; } }
    """,
]
REFERENCES = {"b.proto": 'syntax = "proto3"; package b; message B { int32 x = 1; }'}
PIECES = [
    *"{}<>[]();=.,\"'\\\n\0é-10",
    *(
        "..",
        "/*",
        "*/",
        "//",
        "\ud800",
        "99999999999999999999",
        "0x",
        "1e999",
        "max",
        "to",
        "message",
        "enum",
    ),
    *(
        "extend",
        "oneof",
        "option",
        "optional",
        "required",
        "repeated",
        "group",
        "map<",
        "reserved",
        "extensions",
    ),
    *(
        "import",
        "public",
        "weak",
        "package",
        "service",
        "rpc",
        "stream",
        "syntax",
        "edition",
        "import option",
    ),
    *(
        "features.",
        "default =",
        "json_name =",
        "packed = true",
        "(opt).o.o = {}",
        "[d]",
        "inf",
        "nan",
        "string",
    ),
    *(
        "bytes",
        "google",
        ".google.protobuf.Any",
        'import "/etc/passwd";',
        'import "../b.proto";',
        "{o:{o:{o:",
    ),
    *("message A{" * 20, ".o" * 50),
    *('import "gone/file.proto";', "option (gone.x) = {", "[(gone.y).z = 1]", "(gone.y) = <a: [", "(.x.y)"),
]


class Child:
    """The process that parses."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, text: str, references: Mapping[str, str]) -> str:
        """The result of parsing a schema; `died` if the process does."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"text": text, "references": dict(references)}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.stop()
            return "died"
        answer: str = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process and wait for it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                stream.close()
            self._process = None


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.stop()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A schema with parts cut out, doubled, or replaced."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 5, 40])))
        piece = draw(st.sampled_from(PIECES)) * draw(st.sampled_from([1, 1, 1, 2, 60, 3000]))
        piece = draw(st.sampled_from([piece, "", text[start:end] * 3]))
        text = text[:start] + piece + text[end:]
    return text


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=mutated())
def test_mutated_texts_are_schemas_or_refused(child: Child, text: str) -> None:
    assert child.ask(text, REFERENCES) in ("ok", "invalid")


@settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.sampled_from(SEEDS),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_mutated_descriptors_are_schemas_or_refused(
    child: Child, seed: str, changes: list[tuple[int, int]]
) -> None:
    serialized = bytearray(base64.b64decode(ProtobufFormat().parse(seed, REFERENCES).formatted("serialized")))
    for place, byte in changes:
        serialized[place % len(serialized)] = byte

    assert child.ask(base64.b64encode(serialized).decode(), REFERENCES) in ("ok", "invalid")


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.one_of(
        st.text(max_size=20),
        st.sampled_from(["..", "/x", "a/../b", "google/protobuf/descriptor.proto", "default"]),
    ),
    reference=st.one_of(st.sampled_from([*SEEDS, "", "AAAA"]), mutated(), st.text(max_size=20)),
)
def test_references_of_any_name_and_text(child: Child, name: str, reference: str) -> None:
    text = f'syntax = "proto3"; import {json.dumps(name)}; message M {{}}'

    assert child.ask(text, {**REFERENCES, name: reference}) in ("ok", "invalid")


NESTED = {
    "values in braces": ("option (opt) = {", "o:{", "}", "};"),
    "values in angles": ("option (opt) = {", "o<", ">", "};"),
    "names of options": ("option (opt)", ".o", "", " = {};"),
    "missing values": ('import "gone.proto"; option (gone) = {', "o:{", "}", "};"),
    "missing lists": ('import "gone.proto"; option (gone) = {o:', "[", "]", "};"),
    "missing names": ('import "gone.proto"; option (gone)', ".o", "", " = {};"),
    "messages": ("", "message A {", "}", ""),
    "groups": ("message A {", "optional group G = 1 {", "}", "}"),
}


@pytest.mark.parametrize("depth", [20, 45, 60, 30_000])
@pytest.mark.parametrize("shape", NESTED)
def test_blocks_nested_to_any_depth(child: Child, shape: str, depth: int) -> None:
    before, opening, closing, after = NESTED[shape]
    declared = """
        import "google/protobuf/descriptor.proto"; message Opt { optional Opt o = 1; }
        extend google.protobuf.FileOptions { optional Opt opt = 50000; }
    """

    text = declared + before + opening * depth + closing * depth + after

    expected = {20: ("ok",), 45: ("ok", "invalid")}.get(depth, ("invalid",))
    assert child.ask(text, {}) in expected
    assert child.ask("message M {}", {}) == "ok"


def test_the_seeds_are_schemas(child: Child) -> None:
    assert [child.ask(seed, REFERENCES) for seed in SEEDS] == ["ok"] * len(SEEDS)
