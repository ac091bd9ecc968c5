"""Avro schemas as examples: texts with their canonical form, texts that are none, pairs with what parts them.

The unit tests hold our code against these tables, a conformance test holds the tables against Java.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


def record(name: str, *fields: Any, **attributes: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **attributes}


def enum(name: str, *symbols: str, **attributes: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **attributes}


def fixed(name: str, size: int, **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **attributes}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def field(name: str, kind: Any, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **attributes}


TASKS = [
    enum("TaskState", "ASSIGNED", "STARTED", "COMPLETED", namespace="com.corp.models"),
    record("Task", field("id", "string"), field("status", "TaskState"), namespace="com.corp.models"),
]

CANONICAL: dict[str, tuple[str, str]] = {
    "a primitive as a string": ('"string"', '"string"'),
    "a primitive as an object": ('{"type": "int"}', '"int"'),
    "a primitive with a logical type": (
        '{"logicalType": "date", "type": "int"}',
        '{"type":"int","logicalType":"date"}',
    ),
    "a logical type that doesn't fit stays a property": (
        '{"type": "string", "logicalType": "date"}',
        '{"type":"string","logicalType":"date"}',
    ),
    "an unknown logical type stays a property": (
        '{"type": "bytes", "logicalType": "mine", "x": [1, {"b": 1, "a": null}]}',
        '{"type":"bytes","logicalType":"mine","x":[1,{"b":1,"a":null}]}',
    ),
    "attributes in the order of Java": (
        '{"fields": [{"aliases": ["b"], "x": 1, "order": "descending", "default": 1, "doc": "d", "type": "int",'  # noqa: E501
        ' "name": "a"}], "aliases": ["S"], "p": 2, "doc": "about", "namespace": "n", "name": "R",'
        ' "type": "record"}',
        '{"type":"record","name":"R","namespace":"n","doc":"about","fields":[{"name":"a","type":"int","doc":"d",'
        '"default":1,"order":"descending","aliases":["b"],"x":1}],"p":2,"aliases":["S"]}',
    ),
    "an order that is the default is left out": (
        json.dumps(record("R", field("a", "int", order="ASCENDING"), field("b", "int", order="Ignore"))),
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},'
        '{"name":"b","type":"int","order":"ignore"}]}',
    ),
    "a full name is split": (
        json.dumps(record("a.b.R", field("self", ["null", "R"]))),
        '{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"self","type":["null","R"]}]}',
    ),
    "names are short within their namespace only": (
        json.dumps(
            record(
                "R",
                field("same", enum("E", "A")),
                field("other", enum("F", "A", namespace="m")),
                field("e", "E"),
                field("f", "m.F"),
                namespace="n",
            )
        ),
        '{"type":"record","name":"R","namespace":"n","fields":['
        '{"name":"same","type":{"type":"enum","name":"E","symbols":["A"]}},'
        '{"name":"other","type":{"type":"enum","name":"F","namespace":"m","symbols":["A"]}},'
        '{"name":"e","type":"E"},{"name":"f","type":"m.F"}]}',
    ),
    "no namespace within one": (
        json.dumps(record("n.R", field("a", record("S", namespace="")), field("b", "S"))),
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":'
        '{"type":"record","name":"S","namespace":"","fields":[]}},{"name":"b","type":"S"}]}',
    ),
    "a type whose name is that of a type is written in full": (
        json.dumps(record("n.R", field("a", enum("string", "A")), field("b", "n.string"))),
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":'
        '{"type":"enum","name":"string","symbols":["A"]}},{"name":"b","type":"n.string"}]}',
    ),
    "aliases are short within the namespace": (
        json.dumps(record("n.R", aliases=["n.Q", "P", "m.O", ".N"])),
        '{"type":"record","name":"R","namespace":"n","fields":[],"aliases":["Q","P","m.O","N"]}',
    ),
    "an array of schemas is a union": (
        json.dumps(TASKS),
        '[{"type":"enum","name":"TaskState","namespace":"com.corp.models","symbols":["ASSIGNED","STARTED",'
        '"COMPLETED"]},{"type":"record","name":"Task","namespace":"com.corp.models","fields":['
        '{"name":"id","type":"string"},{"name":"status","type":"TaskState"}]}]',
    ),
    "a name may be used before its definition": (
        json.dumps([record("A", field("b", "B")), record("B", field("a", ["null", "A"]))]),
        '[{"type":"record","name":"A","fields":[{"name":"b","type":{"type":"record","name":"B","fields":['
        '{"name":"a","type":["null","A"]}]}}]},"B"]',
    ),
    "an enum defined twice alike": (
        json.dumps(record("R", field("a", enum("E", "A")), field("b", enum("E", "A", doc="again")))),
        '{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"enum","name":"E","symbols":["A"]}},'
        '{"name":"b","type":"E"}]}',
    ),
    "containers": (
        json.dumps({"type": "map", "values": array(["null", "int"]), "extra": True}),
        '{"type":"map","values":{"type":"array","items":["null","int"]},"extra":true}',
    ),
    "an enum with a default": (
        json.dumps(enum("E", "A", "B", default="B", doc="d", aliases=["F"])),
        '{"type":"enum","name":"E","doc":"d","symbols":["A","B"],"default":"B","aliases":["F"]}',
    ),
    "a fixed": (
        json.dumps(fixed("x.F", 12, logicalType="duration", aliases=["x.G", "y.H"])),
        '{"type":"fixed","name":"F","namespace":"x","size":12,"logicalType":"duration","aliases":["G","y.H"]}',
    ),
    "a decimal": (
        '{"scale": 2, "type": "bytes", "precision": 4, "logicalType": "decimal"}',
        '{"type":"bytes","scale":2,"precision":4,"logicalType":"decimal"}',
    ),
    "an error record": (
        '{"type": "error", "name": "E", "fields": []}',
        '{"type":"error","name":"E","fields":[]}',
    ),
    "numbers as Java writes them": (
        json.dumps(
            record(
                "R",
                field("a", "double", default=1e7),
                field("b", "double", default=0.0001),
                field("c", "float", default=12),
                field("d", "double", default="NaN"),
                field("e", "double", default="-Infinity"),
                field("f", "double", default="1.5"),
                field("g", "long", default=9007199254740993),
                field("h", "double", default=123456.789),
                field("i", "double", default=-0.0),
                field("j", "double", default=5e-324),
                field("k", "double", default=1.7976931348623157e308),
            )
        ),
        '{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.0E7},'
        '{"name":"b","type":"double","default":1.0E-4},{"name":"c","type":"float","default":12},'
        '{"name":"d","type":"double","default":"NaN"},{"name":"e","type":"double","default":"-Infinity"},'
        '{"name":"f","type":"double","default":1.5},{"name":"g","type":"long","default":9007199254740993},'
        '{"name":"h","type":"double","default":123456.789},{"name":"i","type":"double","default":-0.0},'
        '{"name":"j","type":"double","default":4.9E-324},'
        '{"name":"k","type":"double","default":1.7976931348623157E308}]}',
    ),
    "strings as Java writes them": (
        '{"type": "int", "doc": "not kept", "x": "\\u00e9\\u2028\\u007f\\"\\\\/\\b\\f\\n\\r\\t\\u001f\\ud83d\\ude00"}',  # noqa: E501
        '{"type":"int","x":"é\u2028\x7f\\"\\\\/\\b\\f\\n\\r\\t\\u001F😀"}',
    ),
    "names of any script": (
        json.dumps(record("Größe", field("größe", "int"), field("数", "int"))),
        '{"type":"record","name":"Größe","fields":[{"name":"größe","type":"int"},{"name":"数","type":"int"}]}',
    ),
    "comments are skipped": (
        '/* a */ {"type": "int" // "x": 1\n, "url": "http://x/*y*/"}',
        '{"type":"int","url":"http://x/*y*/"}',
    ),
    "the last of equal keys counts": ('{"type": "int", "type": "long"}', '"long"'),
    "defaults of all types": (
        json.dumps(
            record(
                "R",
                field("a", "null", default=None),
                field("b", "boolean", default=True),
                field("c", "bytes", default="\u00ff"),
                field("d", array("int"), default=[1, 2]),
                field("e", mapping("int"), default={"b": 1, "a": 2}),
                field("f", ["int", "null"], default=None),
                field("g", record("S", field("x", "int", default=1), field("y", "int")), default={"y": 2}),
                field("h", enum("E", "A"), default="B"),
                field("i", fixed("F", 1), default="too long"),
            )
        ),
        '{"type":"record","name":"R","fields":[{"name":"a","type":"null","default":null},'
        '{"name":"b","type":"boolean","default":true},{"name":"c","type":"bytes","default":"ÿ"},'
        '{"name":"d","type":{"type":"array","items":"int"},"default":[1,2]},'
        '{"name":"e","type":{"type":"map","values":"int"},"default":{"b":1,"a":2}},'
        '{"name":"f","type":["int","null"],"default":null},'
        '{"name":"g","type":{"type":"record","name":"S","fields":[{"name":"x","type":"int","default":1},'
        '{"name":"y","type":"int"}]},"default":{"y":2}},'
        '{"name":"h","type":{"type":"enum","name":"E","symbols":["A"]},"default":"B"},'
        '{"name":"i","type":{"type":"fixed","name":"F","size":1},"default":"too long"}]}',
    ),
    "no branch at all": ("[]", "[]"),
    "what is no string is no doc": ('{"type": "record", "name": "R", "doc": 1, "fields": []}',
        '{"type":"record","name":"R","fields":[]}'),
}  # fmt: skip

INVALID: dict[str, str] = {
    "nothing": "",
    "blanks": "  \n ",
    "no JSON": "{",
    "a bare word": "string",
    "more after the schema": '"int" "int"',
    "a comment after the schema": '"int" // int',
    "another comment after the schema": '"int" /* int */ ',
    "NaN": '{"type": "int", "x": NaN}',
    "a control character in a string": '{"type": "int", "x": "\n"}',
    "null": "null",
    "a number": "1",
    "true": "true",
    "an object without a type": "{}",
    "a type that is an object": '{"type": {"type": "int"}}',
    "a type that is null": '{"type": null}',
    "an unknown type": '"strnig"',
    "an unknown type as an object": '{"type": "strnig"}',
    "an unknown type of a field": json.dumps(record("R", field("a", "Unknown"))),
    "a type of another namespace by its short name": json.dumps([enum("n.E", "A"), record("R", field("a", "E"))]),  # noqa: E501
    "a record without a name": '{"type": "record", "fields": []}',
    "a record without fields": '{"type": "record", "name": "R"}',
    "fields that are no array": '{"type": "record", "name": "R", "fields": {}}',
    "a field that is a string": '{"type": "record", "name": "R", "fields": ["a"]}',
    "a field without a name": '{"type": "record", "name": "R", "fields": [{"type": "int"}]}',
    "a field without a type": '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
    "a field twice": json.dumps(record("R", field("a", "int"), field("a", "long"))),
    "an order that is none": json.dumps(record("R", field("a", "int", order="upwards"))),
    "an order that is a number": json.dumps(record("R", field("a", "int", order=1))),
    "a name with a hyphen": json.dumps(record("a-b")),
    "a name that begins with a digit": json.dumps(record("1a")),
    "an empty name": json.dumps(record("")),
    "a name that ends with a dot": json.dumps(record("a.")),
    "a namespace with an empty part": json.dumps(record("R", namespace="a..b")),
    "a namespace that begins with a dot": json.dumps(record("R", namespace=".a")),
    "a namespace with a hyphen": json.dumps(record("R", namespace="a-b")),
    "a name of surrogate pairs": json.dumps(record("𝒜")),
    "a field's name with a blank": json.dumps(record("R", field("a b", "int"))),
    "a name of a primitive type": json.dumps(record("string")),
    "aliases that are no array": json.dumps(record("R", aliases="S")),
    "an alias that is a number": json.dumps(record("R", aliases=[1])),
    "an alias that is no name": json.dumps(record("R", aliases=["a-b"])),
    "a record defined twice": json.dumps([record("R"), array(record("R"))]),
    "an enum defined twice in two ways": json.dumps(record("R", field("a", enum("E", "A")), field("b", enum("E", "B")))),  # noqa: E501
    "a fixed defined twice in two ways": json.dumps(record("R", field("a", fixed("F", 1)), field("b", fixed("F", 2)))),  # noqa: E501
    "an enum without symbols": '{"type": "enum", "name": "E"}',
    "symbols that are a string": '{"type": "enum", "name": "E", "symbols": "A"}',
    "a symbol that is a number": '{"type": "enum", "name": "E", "symbols": [1]}',
    "a symbol that is no name": json.dumps(enum("E", "a-b")),
    "a symbol twice": json.dumps(enum("E", "A", "B", "A")),
    "an enum's default that is no symbol": json.dumps(enum("E", "A", default="B")),
    "a fixed without a size": '{"type": "fixed", "name": "F"}',
    "a size that is a string": '{"type": "fixed", "name": "F", "size": "4"}',
    "a size that is negative": json.dumps(fixed("F", -1)),
    "a size beyond an int": json.dumps(fixed("F", 1 << 31)),
    "a size that is a fraction": '{"type": "fixed", "name": "F", "size": 1.0}',
    "an array without items": '{"type": "array"}',
    "a map without values": '{"type": "map"}',
    "items that are null": '{"type": "array", "items": null}',
    "a union within a union": '["int", ["null", "string"]]',
    "a type twice in a union": '["int", {"type": "int", "logicalType": "date"}]',
    "two arrays in a union": json.dumps([array("int"), array("string")]),
    "a name twice in a union": json.dumps([enum("E", "A"), "E"]),
    "a double's default that is no number": json.dumps(record("R", field("a", "double", default="x"))),
}  # fmt: skip

INVALID_WHEN_NEW: dict[str, str] = {
    name: json.dumps(record("R", field("a", kind, default=default)))
    for name, kind, default in (
        ("a string for an int", "int", "1"),
        ("null for an int", "int", None),
        ("true for an int", "int", True),
        ("a fraction for an int", "int", 1.5),
        ("too much for an int", "int", 1 << 31),
        ("too much for a long", "long", 1 << 63),
        ("a number for a string", "string", 1),
        ("a number for a boolean", "boolean", 0),
        ("a string for null", "null", "null"),
        ("true for a double", "double", True),
        ("a number for bytes", "bytes", 1),
        ("an object for an array", array("int"), {}),
        ("an element that doesn't fit", array("int"), [1, "2"]),
        ("an array for a map", mapping("int"), []),
        ("a value that doesn't fit", mapping("int"), {"a": None}),
        ("no branch fits", ["null", "int"], "x"),
        ("no branch at all fits", [], None),
        ("a record's field is missing", record("S", field("x", "int")), {}),
        ("a record's field doesn't fit", record("S", field("x", "int")), {"x": "1"}),
        ("a number for an enum", enum("E", "A"), 1),
    )
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A rule by an example. `found` has (type, location) of each reason; none when the reader can read."""

    rule: str
    reader: Any
    writer: Any
    found: tuple[tuple[str, str], ...] = ()


def _primitives() -> list[Pair]:
    names = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
    reads = {
        "long": ("int",),
        "float": ("int", "long"),
        "double": ("int", "long", "float"),
        "bytes": ("string",),
        "string": ("bytes",),
    }
    pairs = []
    for reader in names:
        for writer in names:
            readable = reader == writer or writer in reads.get(reader, ())
            word = "reads" if readable else "does not read"
            found = () if readable else (("TYPE_MISMATCH", "/"),)
            pairs.append(Pair(f"{reader} {word} {writer}", reader, writer, found))
    return pairs


MISSING_DEFAULT = "READER_FIELD_MISSING_DEFAULT_VALUE"
_A, _B = field("a", "int"), field("b", "int")
_LIST = record("List", field("value", "int"), field("next", ["null", "List"]))
_LONG_LIST = record("List", field("value", "long"), field("next", ["null", "List"]))
_STRING_LIST = record("List", field("value", "boolean"), field("next", ["null", "List"]))

PAIRS: list[Pair] = [
    *_primitives(),
    Pair("logical types don't count", {"type": "int", "logicalType": "date"}, "int"),
    Pair("a primitive doesn't read an array", "int", array("int"), (("TYPE_MISMATCH", "/"),)),
    Pair("an array doesn't read a map", array("int"), mapping("int"), (("TYPE_MISMATCH", "/"),)),
    Pair("a record doesn't read a primitive", record("R"), "int", (("TYPE_MISMATCH", "/"),)),
    Pair("an enum doesn't read a string", enum("E", "A"), "string", (("TYPE_MISMATCH", "/"),)),
    Pair("a string doesn't read an enum", "string", enum("E", "A"), (("TYPE_MISMATCH", "/"),)),
    Pair("a fixed doesn't read bytes", fixed("F", 1), "bytes", (("TYPE_MISMATCH", "/"),)),
    # arrays and maps
    Pair("an array reads an array of what its items read", array("long"), array("int")),
    Pair("items must be readable", array("int"), array("long"), (("TYPE_MISMATCH", "/items"),)),
    Pair("a map reads a map of what its values read", mapping("double"), mapping("float")),
    Pair("values must be readable", mapping("int"), mapping("string"), (("TYPE_MISMATCH", "/values"),)),
    Pair(
        "containers in containers",
        array(mapping("int")),
        array(mapping("string")),
        (("TYPE_MISMATCH", "/items/values"),),
    ),
    # records
    Pair("the same record", record("R", _A), record("R", _A)),
    Pair("a field that the reader doesn't know is skipped", record("R", _A), record("R", _A, _B)),
    Pair(
        "a new field needs a default",
        record("R", _A, _B),
        record("R", _A),
        ((MISSING_DEFAULT, "/fields/1"),),
    ),
    Pair(
        "a new field with a default",
        record("R", _A, field("b", "int", default=1)),
        record("R", _A),
    ),
    Pair(
        "null is a default",
        record("R", _A, field("b", ["null", "int"], default=None)),
        record("R", _A),
    ),
    Pair(
        "a union with null alone is no default",
        record("R", _A, field("b", ["null", "int"])),
        record("R", _A),
        ((MISSING_DEFAULT, "/fields/1"),),
    ),
    Pair("the order of fields doesn't count", record("R", _B, _A), record("R", _A, _B)),
    Pair(
        "a field's type may be promoted",
        record("R", field("a", "double")),
        record("R", _A),
    ),
    Pair(
        "a field's type must be readable",
        record("R", _A),
        record("R", field("a", "string")),
        (("TYPE_MISMATCH", "/fields/0/type"),),
    ),
    Pair(
        "a default doesn't help against a type",
        record("R", field("a", "int", default=1)),
        record("R", field("a", "string")),
        (("TYPE_MISMATCH", "/fields/0/type"),),
    ),
    Pair(
        "a field that was renamed is a new one",
        record("R", field("c", "int")),
        record("R", _A),
        ((MISSING_DEFAULT, "/fields/0"),),
    ),
    Pair("a field that was renamed with an alias", record("R", field("c", "int", aliases=["a"])), record("R", _A)),  # noqa: E501
    Pair(
        "the writer's aliases don't count",
        record("R", _A),
        record("R", field("c", "int", aliases=["a"])),
        ((MISSING_DEFAULT, "/fields/0"),),
    ),
    Pair(
        "two fields at once",
        record("R", field("a", "int"), field("x", "int"), field("y", "int")),
        record("R", field("a", "string")),
        (("TYPE_MISMATCH", "/fields/0/type"), (MISSING_DEFAULT, "/fields/1"), (MISSING_DEFAULT, "/fields/2")),
    ),
    Pair("a record's name counts", record("R", _A), record("S", _A), (("NAME_MISMATCH", "/name"),)),
    Pair("its namespace doesn't", record("a.R", _A), record("b.R", _A)),
    Pair("an alias names the writer", record("R", _A, aliases=["S"]), record("S", _A)),
    Pair("an alias in the namespace", record("n.R", _A, aliases=["S"]), record("n.S", _A)),
    Pair(
        "an alias of another namespace doesn't",
        record("n.R", _A, aliases=["S"]),
        record("m.S", _A),
        (("NAME_MISMATCH", "/name"),),
    ),
    Pair("an alias with its namespace", record("n.R", _A, aliases=["m.S"]), record("m.S", _A)),
    Pair(
        "an alias of the writer doesn't",
        record("R", _A),
        record("S", _A, aliases=["R"]),
        (("NAME_MISMATCH", "/name"),),
    ),
    Pair(
        "a name and a field at once",
        record("R", _A, _B),
        record("S", _A),
        (("NAME_MISMATCH", "/name"), (MISSING_DEFAULT, "/fields/1")),
    ),
    Pair(
        "a record within a record",
        record("R", field("s", record("S", _A, _B))),
        record("R", field("s", record("S", _A))),
        ((MISSING_DEFAULT, "/fields/0/type/fields/1"),),
    ),
    Pair("an error record is a record", {"type": "error", "name": "R", "fields": [_A]}, record("R", _A)),
    Pair("a recursive record", _LONG_LIST, _LIST),
    Pair("a recursive record that differs", _LIST, _STRING_LIST, (("TYPE_MISMATCH", "/fields/0/type"),)),
    Pair(
        "a type that is used twice is reported twice, where it was first",
        record("R", field("s", record("S", _A)), field("t", "S")),
        record("R", field("s", record("S")), field("t", "S")),
        ((MISSING_DEFAULT, "/fields/0/type/fields/0"), (MISSING_DEFAULT, "/fields/0/type/fields/0")),
    ),
    # enums
    Pair("a symbol may be added", enum("E", "A", "B"), enum("E", "A")),
    Pair("none may be taken away", enum("E", "A"), enum("E", "A", "C", "B"), (("MISSING_ENUM_SYMBOLS", "/symbols"),)),  # noqa: E501
    Pair("the order of symbols doesn't count", enum("E", "A", "B"), enum("E", "B", "A")),
    Pair("the reader's default stands for unknown symbols", enum("E", "A", default="A"), enum("E", "A", "B")),
    Pair(
        "the writer's default does not",
        enum("E", "A"),
        enum("E", "A", "B", default="A"),
        (("MISSING_ENUM_SYMBOLS", "/symbols"),),
    ),
    Pair("an enum's name counts", enum("E", "A"), enum("F", "A"), (("NAME_MISMATCH", "/name"),)),
    Pair("an enum's alias", enum("E", "A", aliases=["F"]), enum("F", "A")),
    Pair(
        "a name and a symbol at once",
        enum("E", "A"),
        enum("F", "B"),
        (("NAME_MISMATCH", "/name"), ("MISSING_ENUM_SYMBOLS", "/symbols")),
    ),
    Pair(
        "a new field of an enum with a default of its own still needs one",
        record("R", _A, field("e", enum("E", "X", default="X"))),
        record("R", _A),
        (("TYPE_MISMATCH", "/fields/1/type"),),
    ),
    # fixed
    Pair("the same fixed", fixed("F", 4), fixed("F", 4)),
    Pair("a fixed keeps its size", fixed("F", 4), fixed("F", 8), (("FIXED_SIZE_MISMATCH", "/size"),)),
    Pair("a fixed keeps its name", fixed("F", 4), fixed("G", 4), (("NAME_MISMATCH", "/name"),)),
    Pair(
        "a fixed in a field",
        record("R", field("f", fixed("F", 4))),
        record("R", field("f", fixed("G", 8))),
        (("NAME_MISMATCH", "/fields/0/type/name"), ("FIXED_SIZE_MISMATCH", "/fields/0/type/size")),
    ),
    # unions
    Pair("a type becomes a union with it", ["null", "int"], "int"),
    Pair("a branch may promote", ["null", "double"], "int"),
    Pair("a union must have a branch for the type", ["null", "int"], "string", (("MISSING_UNION_BRANCH", "/"),)),  # noqa: E501
    Pair("a union of one becomes its type", "int", ["int"]),
    Pair(
        "each branch that may have been written must be readable",
        "int",
        ["null", "int"],
        (("TYPE_MISMATCH", "/0"),),
    ),
    Pair("all branches promote", "double", ["int", "float"]),
    Pair("a branch may be added", ["null", "int", "string"], ["null", "int"]),
    Pair("none may be taken away", ["null", "int"], ["null", "int", "boolean"], (("MISSING_UNION_BRANCH", "/2"),)),  # noqa: E501
    Pair("the order of branches doesn't count", ["int", "null"], ["null", "int"]),
    Pair("branches of unions promote", ["null", "long"], ["null", "int"]),
    Pair(
        "two branches at once",
        ["null"],
        ["int", "null", "boolean"],
        (("MISSING_UNION_BRANCH", "/0"), ("MISSING_UNION_BRANCH", "/2")),
    ),
    Pair(
        "a record of a union that can't be read is a missing branch",
        ["null", record("R", _A, _B)],
        ["null", record("R", _A)],
        (("MISSING_UNION_BRANCH", "/1"),),
    ),
    Pair(
        "a union in a field",
        record("R", field("a", ["null", "int"])),
        record("R", field("a", ["null", "string"])),
        (("MISSING_UNION_BRANCH", "/fields/0/type/1"),),
    ),
    Pair(
        "a field that may have been null",
        record("R", field("a", "int")),
        record("R", field("a", ["null", "int"])),
        (("TYPE_MISMATCH", "/fields/0/type/0"),),
    ),
    Pair("records in a union by name", [record("R", _A), record("S", _B)], record("S", _B)),
    Pair("the empty union is readable by all", "int", []),
    Pair("the empty union reads itself", [], []),
    Pair("the empty union reads nothing", [], "int", (("MISSING_UNION_BRANCH", "/"),)),
    Pair("an array of tasks", TASKS, TASKS),
]  # fmt: skip
