"""fastavro can read what the comparison accepts, schemas evolve by the allowed steps, any text is handled."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from ottla.schemas.avro.avro_format import AvroFormat, AvroSchema
from ottla.schemas.avro.compatibility import NotComparable, compare
from ottla.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
)
from ottla.schemas.compatibility import compared, first_with_problems
from ottla.schemas.format import InvalidSchema
from ottla.schemas.model import CompatibilityLevel
from support.schemas.avro_schemas import avro_pairs, avro_schemas

MAX_VALUE_DEPTH = 6
MODERATE = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": _INT32,
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    # Bytes may be read as a string by Avro's rules, but Python's reader requires valid text.
    "bytes": st.text(max_size=3).map(str.encode),
    "string": st.text(max_size=3),
}


def parse(schema: Any) -> AvroSchema:
    try:
        return AvroFormat().parse(json.dumps(schema), {}, new=True)
    except InvalidSchema:
        assume(False)
        raise


def value_of(draw: st.DrawFn, kind: AvroType, depth: int = 0) -> Any:
    """A datum of the type; unions name their branch where fastavro allows it."""
    assume(depth < MAX_VALUE_DEPTH)
    match kind:
        case Primitive():
            return draw(_VALUES[kind.kind])
        case Enum():
            return draw(st.sampled_from(kind.symbols))
        case Fixed():
            return draw(st.binary(min_size=kind.size, max_size=kind.size))
        case Array():
            return [value_of(draw, kind.items, depth + 1) for _ in range(draw(st.integers(0, 2)))]
        case Map():
            names = draw(st.lists(st.text(max_size=2), max_size=2, unique=True))
            return {name: value_of(draw, kind.values, depth + 1) for name in names}
        case Union():
            assume(kind.branches)
            branch = draw(st.sampled_from(kind.branches))
            value = value_of(draw, branch, depth + 1)
            return (branch.full_name, value) if isinstance(branch, Record | Enum | Fixed) else value
        case Record():
            return {field.name: value_of(draw, field.type, depth + 1) for field in kind.fields}


def fastavro_schema(parsed: AvroSchema) -> Any:
    """The schema for fastavro, which refuses some that Java accepts (defaults by another rule)."""
    schema = json.loads(parsed.canonical_text)
    try:
        fastavro.parse_schema(json.loads(parsed.canonical_text))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
        assume(False)
    return schema


def beyond_fastavro(root: AvroType) -> bool:
    """Whether a reader has a union in which a short name or an alias stands for two branches.

    fastavro takes the first branch of that name, and fails when it doesn't fit; Java tries the others.
    """
    waiting, seen = [root], set()
    while waiting:
        kind = waiting.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        match kind:
            case Array():
                waiting.append(kind.items)
            case Map():
                waiting.append(kind.values)
            case Record():
                waiting.extend(field.type for field in kind.fields)
            case Union():
                waiting.extend(kind.branches)
                named = [branch for branch in kind.branches if isinstance(branch, Record | Enum | Fixed)]
                names = [
                    name
                    for branch in named
                    for name in {branch.name.name, *(alias.name for alias in branch.aliases)}
                ]
                if len(set(names)) < len(names):
                    return True
    return False


@MODERATE
@given(pair=avro_pairs(), data=st.data())
def test_data_of_a_compatible_schema_can_be_read(pair: tuple[Any, Any], data: st.DataObject) -> None:
    reader, writer = parse(pair[0]), parse(pair[1])
    try:
        findings = compare(reader.root, writer.root)
    except NotComparable:
        return
    event("compatible" if not findings else "not compatible")
    assume(not findings and not beyond_fastavro(reader.root))
    datum = data.draw(st.composite(lambda draw: value_of(draw, writer.root))())
    as_written, as_read = fastavro_schema(writer), fastavro_schema(reader)
    encoded = io.BytesIO()
    try:
        fastavro.schemaless_writer(encoded, as_written, datum)
    except ValueError:  # it doesn't find branches that are named within another union
        assume(False)
    encoded.seek(0)
    fastavro.schemaless_reader(encoded, as_written, as_read)
    assert encoded.read() == b""


# -- evolution ---------------------------------------------------------------------------------------


def with_new_field(record: dict[str, Any], name: str, **attributes: Any) -> dict[str, Any]:
    return {**record, "fields": [*record["fields"], {"name": name, "type": "int", **attributes}]}


def without_field(record: dict[str, Any], place: int) -> dict[str, Any]:
    return {**record, "fields": [field for index, field in enumerate(record["fields"]) if index != place]}


def promoted(record: dict[str, Any], place: int) -> dict[str, Any]:
    wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
    fields = [dict(field) for field in record["fields"]]
    assume(isinstance(fields[place]["type"], str) and fields[place]["type"] in wider)
    fields[place]["type"] = wider[fields[place]["type"]]
    fields[place].pop("default", None)
    return {**record, "fields": fields}


def is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "record"


def without_field_aliases(node: Any) -> Any:
    """A field that is an alias of itself or of another one can't be read, not even by its own schema."""
    match node:
        case dict():
            kept = {name: without_field_aliases(value) for name, value in node.items()}
            if "fields" in kept:
                kept["fields"] = [
                    {name: value for name, value in field.items() if name != "aliases"}
                    for field in kept["fields"]
                ]
            return kept
        case list():
            return [without_field_aliases(each) for each in node]
    return node


def readable(reader: AvroSchema, writer: AvroSchema) -> bool:
    return not reader.incompatibilities(writer)


def follows(level: CompatibilityLevel, new: AvroSchema, *newest_first: AvroSchema) -> bool:
    """Whether `new` may be the next version after these."""
    return first_with_problems(level, newest_first, lambda old: compared(level, new, old)) is None


@settings(MODERATE, max_examples=50)
@given(data=st.data())
def test_allowed_steps_stay_compatible_and_others_do_not(data: st.DataObject) -> None:
    made = without_field_aliases(data.draw(avro_schemas().filter(is_record)))
    first, with_default, bare, more = (
        parse(made),
        parse(with_new_field(made, "added", default=1)),
        parse(with_new_field(made, "added")),
        parse(with_new_field(with_new_field(made, "added", default=1), "more", default=2)),
    )
    assert readable(first, first)
    assert readable(with_default, first), "backward: old data gets the default"
    assert readable(first, with_default), "forward: old readers skip the field"
    assert not readable(bare, first), "not backward: old data has no value"
    assert readable(first, bare), "forward all the same"
    for level in CompatibilityLevel:
        assert follows(level, more, with_default, first)
        allowed = level is CompatibilityLevel.NONE or level.startswith("FORWARD")
        assert follows(level, bare, first) is allowed
        # The newest version is readable, the one before it is not: transitive levels check that too.
        assert follows(level, bare, bare, first) is (allowed or not level.endswith("_TRANSITIVE"))
    if made["fields"]:
        place = data.draw(st.integers(0, len(made["fields"]) - 1))
        try:
            fewer = AvroFormat().parse(json.dumps(without_field(made, place)), {})
        except InvalidSchema:
            return  # the field's type is defined there and used elsewhere
        assert readable(fewer, first), "backward: its values are skipped"
        assert readable(parse(promoted(made, place)), first), "backward: the value is promoted"


# -- texts -------------------------------------------------------------------------------------------


@MODERATE
@given(schema=avro_schemas().map(without_field_aliases))
def test_normal_forms_mean_the_same_and_are_their_own(schema: Any) -> None:
    parsed = parse(schema)
    again = parse(json.loads(parsed.normalized()))
    assert again.normalized() == parsed.normalized()
    assert not again.incompatibilities(parsed)
    assert not parsed.incompatibilities(again)
    assert json.loads(parsed.canonical_text) is not None


_WORDS = st.sampled_from(
    ("record", "enum", "fixed", "array", "map", "int", "string", "A", "n.A", "", ".", "ascending", "a b")
)
_KEYS = st.sampled_from(
    (
        *("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "default", "order"),
        *("aliases", "doc", "logicalType"),
    )
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=20,
)


@settings(MODERATE, max_examples=500)
@given(text=_ANYTHING.map(json.dumps) | st.text())
def test_any_text_is_a_schema_or_invalid(text: str) -> None:
    try:
        parsed = AvroFormat().parse(text, {}, new=True)
    except InvalidSchema as error:
        assert str(error)
    else:
        AvroFormat().parse(parsed.canonical_text, {}, new=True)


@pytest.mark.parametrize("new", [False, True])
@settings(MODERATE, max_examples=100)
@given(schema=avro_schemas(), data=st.data())
def test_a_schema_with_one_part_replaced_is_one_or_invalid(
    new: bool, schema: Any, data: st.DataObject
) -> None:
    def damaged(node: Any) -> Any:
        if data.draw(st.integers(0, 5)) == 0:
            return data.draw(_ANYTHING)
        match node:
            case dict() if node:
                key = data.draw(st.sampled_from(sorted(node)))
                return {**node, key: damaged(node[key])}
            case list() if node:
                place = data.draw(st.integers(0, len(node) - 1))
                return [damaged(each) if index == place else each for index, each in enumerate(node)]
        return data.draw(_ANYTHING)

    try:
        AvroFormat().parse(json.dumps(damaged(schema)), {}, new=new)
    except InvalidSchema as error:
        assert str(error)
