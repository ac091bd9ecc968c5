"""The rules by which a JSON Schema may change, case by case, in both directions.

`backward` is what a reader with the new schema finds in data of the old one, `forward` what a reader with
the old schema finds in data of the new one. Each difference stands with its place: + readers can live with it,
- they can't; the schemas are compatible in that direction where there is no -.
"""

# ruff: noqa: E501  # a table

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.schemas.json_schema.differences import COMPATIBLE
from ottla.schemas.json_schema.json_schema_format import JsonSchema, JsonSchemaFormat
from ottla.schemas.model import CompatibilityPolicy

FORMAT = JsonSchemaFormat()
STRICT, LENIENT = CompatibilityPolicy.STRICT, CompatibilityPolicy.LENIENT

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
FLAG = {"type": "boolean"}
NOTHING = {"type": "null"}
LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@dataclass(frozen=True)
class Case:
    name: str
    old: Any
    new: Any
    backward: tuple[str, ...]
    forward: tuple[str, ...]


def case(name: str, old: Any, new: Any, backward: str = "", forward: str = "") -> Case:
    return Case(name, old, new, tuple(_lines(backward)), tuple(_lines(forward)))


def _lines(told: str) -> Iterator[str]:
    return (line.strip() for line in told.split(";") if line.strip())


def opened(**properties: Any) -> dict[str, Any]:
    """An object that may have other properties."""
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    """An object that may not."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def rest(schema: Any, **properties: Any) -> dict[str, Any]:
    """An object whose other properties must fit a schema."""
    return {"type": "object", "properties": properties, "additionalProperties": schema}


def requiring(*names: str) -> dict[str, Any]:
    """An open object that must have some properties."""
    return {"type": "object", "required": list(names)}


def array(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", **keywords}


TYPES = [
    case("the same", TEXT, TEXT),
    case("another order of keywords", {"type": "string", "maxLength": 3}, {"maxLength": 3, "type": "string"}),
    case("only a title, a description, a default, a format, examples", TEXT,
         {"title": "T", "description": "d", "default": "x", "format": "date", "examples": ["x"], "type": "string"}),
    case("an integer becomes a number", INTEGER, NUMBER, "+TYPE_EXTENDED #", "-TYPE_NARROWED #"),
    case("a text becomes an integer", TEXT, INTEGER, "-TYPE_CHANGED #", "-TYPE_CHANGED #"),
    case("an object becomes an array", opened(), array(), "-TYPE_CHANGED #", "-TYPE_CHANGED #"),
    case("a text becomes anything", TEXT, {}, "+SCHEMA_REMOVED #", "-TYPE_CHANGED #"),
    case("a text becomes true", TEXT, True, "+SCHEMA_REMOVED #", "-TYPE_CHANGED #"),
    case("true becomes {}", True, {}),
    case("false becomes a text", False, TEXT, "", "-TYPE_CHANGED #"),
    case("false becomes true", False, True, "", "-TYPE_CHANGED #"),
    case("not {} becomes false", {"not": {}}, False),
    case("a type gains null", TEXT, {"type": ["string", "null"]},
         "+SUM_TYPE_EXTENDED #", "-SUM_TYPE_NARROWED #"),
    case("types in another order", {"type": ["null", "string"]}, {"type": ["string", "null"]}),
    case("a list of one type", TEXT, {"type": ["string"]}),
    case("types with one in common", {"type": ["string", "null"]}, {"type": ["string", "integer"]},
         "-TYPE_CHANGED #", "-TYPE_CHANGED #"),
    case("integer and null become number and null", {"type": ["integer", "null"]}, {"type": ["number", "null"]},
         "+SUM_TYPE_EXTENDED #", "-SUM_TYPE_NARROWED #"),
    case("number names integer too", NUMBER, {"type": ["integer", "number"]}),
    case("a type is named where there were keywords alone", {"minLength": 1}, {"type": "string", "minLength": 1},
         "-TYPE_NARROWED #", "+TYPE_EXTENDED #"),
    case("keywords of other types say nothing", {"type": "string", "minimum": 3}, {"type": "string", "minimum": 9}),
    case("types become a sum of them", {"type": ["string", "null"]}, {"anyOf": [NOTHING, TEXT]}),
    case("types become an exclusive sum of them", {"type": ["string", "null"]}, {"oneOf": [NOTHING, TEXT]}),
    case("a text in draft 4 becomes one in 2020-12", {"$schema": DRAFT_4, **TEXT}, {"$schema": LATEST, **TEXT}),
]  # fmt: skip

STRINGS = [
    case("maxLength appears", TEXT, {**TEXT, "maxLength": 9},
         "-MAX_LENGTH_ADDED #/maxLength", "+MAX_LENGTH_REMOVED #/maxLength"),
    case("maxLength grows", {**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 9},
         "+MAX_LENGTH_INCREASED #/maxLength", "-MAX_LENGTH_DECREASED #/maxLength"),
    case("minLength appears", TEXT, {**TEXT, "minLength": 1},
         "-MIN_LENGTH_ADDED #/minLength", "+MIN_LENGTH_REMOVED #/minLength"),
    case("minLength grows", {**TEXT, "minLength": 1}, {**TEXT, "minLength": 2},
         "-MIN_LENGTH_INCREASED #/minLength", "+MIN_LENGTH_DECREASED #/minLength"),
    case("minLength 0 says nothing", TEXT, {**TEXT, "minLength": 0}),
    case("pattern appears", TEXT, {**TEXT, "pattern": "^a"},
         "-PATTERN_ADDED #/pattern", "+PATTERN_REMOVED #/pattern"),
    case("pattern changes", {**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "^b"},
         "-PATTERN_CHANGED #/pattern", "-PATTERN_CHANGED #/pattern"),
    case("two limits change at once", {**TEXT, "minLength": 2, "maxLength": 4},
         {**TEXT, "minLength": 1, "maxLength": 3},
         "-MAX_LENGTH_DECREASED #/maxLength; +MIN_LENGTH_DECREASED #/minLength",
         "+MAX_LENGTH_INCREASED #/maxLength; -MIN_LENGTH_INCREASED #/minLength"),
    case("a limit appears where nothing names a type", {}, {"maxLength": 3},
         "-MAX_LENGTH_ADDED #/maxLength", "+SCHEMA_REMOVED #"),
]  # fmt: skip

NUMBERS = [
    case("maximum appears", NUMBER, {**NUMBER, "maximum": 9},
         "-MAXIMUM_ADDED #/maximum", "+MAXIMUM_REMOVED #/maximum"),
    case("maximum grows", {**NUMBER, "maximum": 9}, {**NUMBER, "maximum": 9.5},
         "+MAXIMUM_INCREASED #/maximum", "-MAXIMUM_DECREASED #/maximum"),
    case("minimum appears", NUMBER, {**NUMBER, "minimum": 1},
         "-MINIMUM_ADDED #/minimum", "+MINIMUM_REMOVED #/minimum"),
    case("minimum grows", {**NUMBER, "minimum": -1}, {**NUMBER, "minimum": 1},
         "-MINIMUM_INCREASED #/minimum", "+MINIMUM_DECREASED #/minimum"),
    case("exclusiveMaximum appears", NUMBER, {**NUMBER, "exclusiveMaximum": 9},
         "-EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum", "+EXCLUSIVE_MAXIMUM_REMOVED #/exclusiveMaximum"),
    case("exclusiveMaximum grows", {**NUMBER, "exclusiveMaximum": 8}, {**NUMBER, "exclusiveMaximum": 9},
         "+EXCLUSIVE_MAXIMUM_INCREASED #/exclusiveMaximum", "-EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"),
    case("exclusiveMinimum appears", NUMBER, {**NUMBER, "exclusiveMinimum": 0},
         "-EXCLUSIVE_MINIMUM_ADDED #/exclusiveMinimum", "+EXCLUSIVE_MINIMUM_REMOVED #/exclusiveMinimum"),
    case("exclusiveMinimum grows", {**NUMBER, "exclusiveMinimum": 0}, {**NUMBER, "exclusiveMinimum": 1},
         "-EXCLUSIVE_MINIMUM_INCREASED #/exclusiveMinimum", "+EXCLUSIVE_MINIMUM_DECREASED #/exclusiveMinimum"),
    case("a limit becomes exclusive", {**NUMBER, "maximum": 9}, {**NUMBER, "exclusiveMaximum": 9},
         "+MAXIMUM_REMOVED #/maximum; -EXCLUSIVE_MAXIMUM_ADDED #/exclusiveMaximum",
         "+EXCLUSIVE_MAXIMUM_REMOVED #/exclusiveMaximum"),
    case("a limit becomes exclusive and moves away", {**NUMBER, "minimum": 1}, {**NUMBER, "exclusiveMinimum": 0},
         "+MINIMUM_REMOVED #/minimum",
         "-MINIMUM_ADDED #/minimum; +EXCLUSIVE_MINIMUM_REMOVED #/exclusiveMinimum"),
    case("draft 4's exclusive limit is draft 7's",
         {"$schema": DRAFT_4, "type": "number", "maximum": 9, "exclusiveMaximum": True},
         {"type": "number", "exclusiveMaximum": 9}),
    case("multipleOf appears", NUMBER, {**NUMBER, "multipleOf": 2},
         "-MULTIPLE_OF_ADDED #/multipleOf", "+MULTIPLE_OF_REMOVED #/multipleOf"),
    case("multipleOf is divided", {**NUMBER, "multipleOf": 6}, {**NUMBER, "multipleOf": 3},
         "+MULTIPLE_OF_REDUCED #/multipleOf", "-MULTIPLE_OF_EXPANDED #/multipleOf"),
    case("multipleOf as a decimal fraction", {**NUMBER, "multipleOf": 0.3}, {**NUMBER, "multipleOf": 0.1},
         "+MULTIPLE_OF_REDUCED #/multipleOf", "-MULTIPLE_OF_EXPANDED #/multipleOf"),
    case("multipleOf that integers are anyway", INTEGER, {**NUMBER, "multipleOf": 0.5},
         "+TYPE_EXTENDED #", "-TYPE_NARROWED #; +MULTIPLE_OF_REMOVED #/multipleOf"),
    case("multipleOf changes", {**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 6},
         "-MULTIPLE_OF_CHANGED #/multipleOf", "-MULTIPLE_OF_CHANGED #/multipleOf"),
    case("an integer with a limit becomes a number without", {**INTEGER, "maximum": 5}, NUMBER,
         "+TYPE_EXTENDED #; +MAXIMUM_REMOVED #/maximum", "-TYPE_NARROWED #; -MAXIMUM_ADDED #/maximum"),
    case("limits past 64 bits are exact", {**INTEGER, "maximum": 2**70}, {**INTEGER, "maximum": 2**70 + 1},
         "+MAXIMUM_INCREASED #/maximum", "-MAXIMUM_DECREASED #/maximum"),
    case("numbers past floats are exact", {**INTEGER, "multipleOf": 9 * 10**400}, {**INTEGER, "multipleOf": 3 * 10**400},
         "+MULTIPLE_OF_REDUCED #/multipleOf", "-MULTIPLE_OF_EXPANDED #/multipleOf"),
    case("a oneOf of numbers past floats", {"oneOf": [{"const": 10**400}, {"maximum": 0.5}]},
         {"oneOf": [{"const": 10**400}, {"maximum": 0.5}, {"minimum": 10**401, "multipleOf": 10**400}]},
         "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/oneOf", "-SUM_TYPE_NARROWED #/oneOf"),
    case("1 and 1.0 are equal limits", {**NUMBER, "maximum": 1}, {**NUMBER, "maximum": 1.0}),
]  # fmt: skip

VALUES = [
    case("a value is added", {"enum": ["a"]}, {"enum": ["a", "b"]},
         "+ENUM_ARRAY_EXTENDED #/enum", "-ENUM_ARRAY_NARROWED #/enum"),
    case("values in another order", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    case("a value is replaced", {"enum": ["a", "b"]}, {"enum": ["a", "c"]},
         "-ENUM_ARRAY_CHANGED #/enum", "-ENUM_ARRAY_CHANGED #/enum"),
    case("a value of another type is added", {"enum": ["a"]}, {"enum": ["a", 1]},
         "+TYPE_EXTENDED #; +ENUM_ARRAY_EXTENDED #/enum", "-TYPE_NARROWED #; -ENUM_ARRAY_NARROWED #/enum"),
    case("values of a type become the type", {"enum": ["a", "b"]}, TEXT,
         "+ENUM_ARRAY_EXTENDED #/enum", "-ENUM_ARRAY_NARROWED #/enum"),
    case("values become a text with limits that they keep", {"enum": ["a", "bc"]},
         {**TEXT, "minLength": 1, "maxLength": 2, "pattern": "^[a-z]+$"},
         "", "-ENUM_ARRAY_NARROWED #/enum; +MAX_LENGTH_REMOVED #/maxLength; +MIN_LENGTH_REMOVED #/minLength;"
         "+PATTERN_REMOVED #/pattern"),
    case("values become a text with a limit that one breaks", {"enum": ["a", "bcd"]}, {**TEXT, "maxLength": 2},
         "+ENUM_ARRAY_EXTENDED #/enum; -MAX_LENGTH_ADDED #/maxLength",
         "-ENUM_ARRAY_NARROWED #/enum; +MAX_LENGTH_REMOVED #/maxLength"),
    case("a constant becomes a number with limits that it keeps", {"const": 3}, {**INTEGER, "minimum": 1},
         "", "-ENUM_ARRAY_NARROWED #/const; +MINIMUM_REMOVED #/minimum"),
    case("values become another type", {"enum": ["a", "b"]}, INTEGER,
         "-TYPE_CHANGED #; +ENUM_ARRAY_EXTENDED #/enum", "-TYPE_CHANGED #; -ENUM_ARRAY_NARROWED #/enum"),
    case("true is not 1", {"enum": [True]}, {"enum": [1]},
         "-TYPE_CHANGED #; -ENUM_ARRAY_CHANGED #/enum", "-TYPE_CHANGED #; -ENUM_ARRAY_CHANGED #/enum"),
    case("1 is 1.0", {"enum": [1]}, {"enum": [1.0]}),
    case("values that are objects, keys in another order",
         {"enum": [{"a": 1, "b": [2]}]}, {"enum": [{"b": [2], "a": 1}]}),
    case("values that the type excludes don't count", {**TEXT, "enum": ["a", 1]}, {**TEXT, "enum": ["a"]}),
    case("a constant becomes a list with it", {"const": "a"}, {"enum": ["a", "b"]},
         "+ENUM_ARRAY_EXTENDED #/const", "-ENUM_ARRAY_NARROWED #/const"),
    case("a constant is a list of one", {"const": "a"}, {"enum": ["a"]}),
    case("a constant changes", {"const": "a"}, {"const": "b"},
         "-ENUM_ARRAY_CHANGED #/const", "-ENUM_ARRAY_CHANGED #/const"),
    case("draft 4 has no constants", {"$schema": DRAFT_4, "const": "a"}, {"$schema": DRAFT_4, "const": "b"}),
    case("a constant and a list that lacks it let nothing through", {"const": "a", "enum": ["b"]}, TEXT,
         "+TYPE_EXTENDED #; +ENUM_ARRAY_EXTENDED #/const", "-TYPE_NARROWED #; -ENUM_ARRAY_NARROWED #/const"),
]  # fmt: skip

OBJECTS = [
    case("open: an optional property is added", opened(a=TEXT), opened(a=TEXT, b=TEXT),
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("open: a property that may be anything is added", opened(a=TEXT), opened(a=TEXT, b={}),
         "+PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("open: a required property is added", opened(), {**opened(b=TEXT), "required": ["b"]},
         "-REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("open: a required property with a default is added", opened(),
         {**opened(b={**TEXT, "default": ""}), "required": ["b"]},
         "-REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("open: a required property that may be anything is added", opened(),
         {**opened(b={}), "required": ["b"]},
         "-REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("open: a property that was required already is spoken of", {**opened(), "required": ["b"]},
         {**opened(b=TEXT), "required": ["b"]},
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("closed: an optional property is added", closed(a=TEXT), closed(a=TEXT, b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("closed: a required property is added", closed(), {**closed(b=TEXT), "required": ["b"]},
         "-REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; -PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("closed: a required property with a default is added", closed(),
         {**closed(b={**TEXT, "default": ""}), "required": ["b"]},
         "+REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; -PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("closed: a property that may not be there is removed", closed(a=TEXT, b=False), closed(a=TEXT),
         "+PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b",
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"),
    case("closed by a schema that nothing fits", rest({"not": {}}), rest({"not": {}}, b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("partially open: a property that fits is added", rest(NUMBER), rest(NUMBER, n=NUMBER),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/n",
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n"),
    case("partially open: a narrower property is added", rest(NUMBER), rest(NUMBER, n=INTEGER),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/n",
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n"),
    case("partially open: a wider property is added", rest(INTEGER), rest(INTEGER, n=NUMBER),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/n",
         "-PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/n"),
    case("partially open: a required property is added", rest(TEXT), {**rest(TEXT, b=TEXT), "required": ["b"]},
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b;"
         "-REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b;"
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"),
    case("a closed model opens", closed(a=TEXT), opened(a=TEXT),
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
         "-ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
    case("a closed model opens to a schema", closed(), rest(TEXT),
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
         "-ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
    case("an open model is narrowed to a schema", opened(), rest(TEXT),
         "-ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties",
         "+ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"),
    case("additional properties widen", rest(INTEGER), rest(NUMBER),
         "+TYPE_EXTENDED #/additionalProperties", "-TYPE_NARROWED #/additionalProperties"),
    case("additionalProperties: true is the default", opened(a=TEXT), rest(True, a=TEXT)),
    case("additionalProperties: {} is the default", opened(a=TEXT), rest({}, a=TEXT)),
    case("a closed model swaps a property", closed(a=TEXT), closed(b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b;"
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a",
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a;"
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("a closed model opens and loses a property", closed(a=TEXT, b=TEXT), opened(a=TEXT),
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b;"
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b;"
         "-ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
    case("a closed model opens and gains a property", closed(a=TEXT), opened(a=TEXT, b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b;"
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b;"
         "-ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
    case("a property's type widens", opened(a=INTEGER), opened(a=NUMBER),
         "+TYPE_EXTENDED #/properties/a", "-TYPE_NARROWED #/properties/a"),
    case("a property deep down changes", opened(a=opened(b=array(items=TEXT))),
         opened(a=opened(b=array(items=INTEGER))),
         "-TYPE_CHANGED #/properties/a/properties/b/items", "-TYPE_CHANGED #/properties/a/properties/b/items"),
    case("names with / and ~ are escaped in places", opened(**{"a/b~c": TEXT}), opened(**{"a/b~c": INTEGER}),
         "-TYPE_CHANGED #/properties/a~1b~0c", "-TYPE_CHANGED #/properties/a~1b~0c"),
    case("a property becomes required", opened(a=TEXT), {**opened(a=TEXT), "required": ["a"]},
         "-REQUIRED_ATTRIBUTE_ADDED #/required/a", "+REQUIRED_ATTRIBUTE_REMOVED #/required/a"),
    case("a property with a default becomes required", opened(a={**TEXT, "default": ""}),
         {**opened(a={**TEXT, "default": ""}), "required": ["a"]},
         "+REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a", "+REQUIRED_ATTRIBUTE_REMOVED #/required/a"),
    case("a name that has no schema becomes required", opened(), {**opened(), "required": ["x"]},
         "-REQUIRED_ATTRIBUTE_ADDED #/required/x", "+REQUIRED_ATTRIBUTE_REMOVED #/required/x"),
    case("required in another order", {**opened(), "required": ["x", "y"]}, {**opened(), "required": ["y", "x"]}),
    case("a property that data may not have becomes required", closed(a=TEXT),
         {**closed(a=TEXT), "required": ["x"]},
         "-REQUIRED_ATTRIBUTE_ADDED #/required/x", "+REQUIRED_ATTRIBUTE_REMOVED #/required/x"),
    case("maxProperties appears", opened(), {**opened(), "maxProperties": 3},
         "-MAX_PROPERTIES_ADDED #/maxProperties", "+MAX_PROPERTIES_REMOVED #/maxProperties"),
    case("maxProperties grows", {**opened(), "maxProperties": 2}, {**opened(), "maxProperties": 3},
         "+MAX_PROPERTIES_INCREASED #/maxProperties", "-MAX_PROPERTIES_DECREASED #/maxProperties"),
    case("minProperties appears", opened(), {**opened(), "minProperties": 1},
         "-MIN_PROPERTIES_ADDED #/minProperties", "+MIN_PROPERTIES_REMOVED #/minProperties"),
    case("minProperties grows", {**opened(), "minProperties": 1}, {**opened(), "minProperties": 2},
         "-MIN_PROPERTIES_INCREASED #/minProperties", "+MIN_PROPERTIES_DECREASED #/minProperties"),
    case("names must fit a schema", opened(), {**opened(), "propertyNames": {"maxLength": 3}},
         "-SCHEMA_ADDED #/propertyNames", "+SCHEMA_REMOVED #/propertyNames"),
    case("names may be longer", {**opened(), "propertyNames": {"maxLength": 3}},
         {**opened(), "propertyNames": {"maxLength": 4}},
         "+MAX_LENGTH_INCREASED #/propertyNames/maxLength", "-MAX_LENGTH_DECREASED #/propertyNames/maxLength"),
    case("keywords of objects where nothing names a type", {"properties": {"a": INTEGER}},
         {"properties": {"a": NUMBER}}, "+TYPE_EXTENDED #/properties/a", "-TYPE_NARROWED #/properties/a"),
]  # fmt: skip


def patterned(patterns: dict[str, Any], additional: Any = True, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "patternProperties": patterns,
        "additionalProperties": additional,
    }  # fmt: skip


PATTERNS = [
    case("a property that a pattern covers is added", patterned({"^s_": TEXT}, False),
         patterned({"^s_": TEXT}, False, s_a=TEXT),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/s_a;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/s_a",
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/s_a"),
    case("a property that a pattern contradicts is added", patterned({"^s_": TEXT}, False),
         patterned({"^s_": TEXT}, False, s_a=INTEGER),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/s_a;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/s_a",
         "-PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/s_a"),
    case("a property that no pattern covers is added to a closed rest", patterned({"^s_": TEXT}, False),
         patterned({"^s_": TEXT}, False, a=TEXT),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
         "-PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"),
    case("a property that no pattern covers is added to an open rest", patterned({"^s_": TEXT}),
         patterned({"^s_": TEXT}, True, a=TEXT),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"),
    case("a pattern's schema widens", patterned({"^n_": INTEGER}), patterned({"^n_": NUMBER}),
         "+TYPE_EXTENDED #/patternProperties/^n_", "-TYPE_NARROWED #/patternProperties/^n_"),
    case("a pattern is added to an open model", opened(), patterned({"^n_": NUMBER}),
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/patternProperties/^n_",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/patternProperties/^n_"),
    case("a pattern of anything is added to an open model", opened(), patterned({"^n_": {}}),
         "+PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/patternProperties/^n_",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/patternProperties/^n_"),
    case("a pattern is added to a closed model", closed(a=TEXT), patterned({"^n_": NUMBER}, False, a=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/patternProperties/^n_",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/patternProperties/^n_"),
    case("a pattern is added that contradicts a property", closed(n_a=TEXT),
         patterned({"^n_": NUMBER}, False, n_a=TEXT),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/patternProperties/^n_",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/patternProperties/^n_"),
    case("a pattern is added that fits the rest", rest(INTEGER), patterned({"^n_": NUMBER}, INTEGER),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/patternProperties/^n_",
         "-PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/patternProperties/^n_"),
    case("a pattern is added that names of another pattern may match too", patterned({"^n_": INTEGER}, False),
         patterned({"^n_": INTEGER, "_t$": TEXT}, False),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/patternProperties/_t$",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/patternProperties/_t$"),
    case("a pattern is too dear to run: both answers must do",
         patterned({"(a+)+$": TEXT}, TEXT), patterned({"(a+)+$": TEXT}, TEXT, b=TEXT),
         "+PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"),
    case("a pattern is too dear to run and one answer would not do",
         patterned({"(a+)+$": TEXT}, False), patterned({"(a+)+$": TEXT}, False, b=INTEGER),
         "-PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "-PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"),
]  # fmt: skip

DEPENDENCIES = [
    case("a list appears", opened(), {**opened(), "dependencies": {"a": ["b"]}},
         "-DEPENDENCY_ARRAY_ADDED #/dependencies/a", "+DEPENDENCY_ARRAY_REMOVED #/dependencies/a"),
    case("a list grows", {**opened(), "dependencies": {"a": ["b"]}},
         {**opened(), "dependencies": {"a": ["b", "c"]}},
         "-DEPENDENCY_ARRAY_EXTENDED #/dependencies/a", "+DEPENDENCY_ARRAY_NARROWED #/dependencies/a"),
    case("a list changes", {**opened(), "dependencies": {"a": ["b"]}}, {**opened(), "dependencies": {"a": ["c"]}},
         "-DEPENDENCY_ARRAY_CHANGED #/dependencies/a", "-DEPENDENCY_ARRAY_CHANGED #/dependencies/a"),
    case("a list of what is required anyway appears", {**opened(), "required": ["b"]},
         {**opened(), "required": ["b"], "dependencies": {"a": ["b"]}},
         "", "+DEPENDENCY_ARRAY_REMOVED #/dependencies/a"),
    case("dependencies become dependentRequired", {**opened(), "dependencies": {"a": ["b"]}},
         {"$schema": LATEST, **opened(), "dependentRequired": {"a": ["b"]}}),
    case("2020-12 has no dependencies", {"$schema": LATEST, **opened()},
         {"$schema": LATEST, **opened(), "dependencies": {"a": ["b"]}}),
    case("a schema appears", opened(), {**opened(), "dependencies": {"a": {"required": ["b"]}}},
         "-DEPENDENCY_SCHEMA_ADDED #/dependencies/a", "+DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"),
    case("a schema that holds anyway appears", {**opened(), "required": ["b"]},
         {**opened(), "required": ["b"], "dependencies": {"a": {"required": ["b"]}}},
         "", "+DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"),
    case("a schema widens", {**opened(), "dependencies": {"a": {"maxProperties": 2}}},
         {**opened(), "dependencies": {"a": {"maxProperties": 3}}},
         "+MAX_PROPERTIES_INCREASED #/dependencies/a/maxProperties",
         "-MAX_PROPERTIES_DECREASED #/dependencies/a/maxProperties"),
    case("a list becomes a schema", {**opened(), "dependencies": {"a": ["b"]}},
         {**opened(), "dependencies": {"a": {"required": ["b"]}}},
         "+DEPENDENCY_ARRAY_REMOVED #/dependencies/a; -DEPENDENCY_SCHEMA_ADDED #/dependencies/a",
         "-DEPENDENCY_ARRAY_ADDED #/dependencies/a; +DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"),
]  # fmt: skip


def pair(*items: Any, others: Any = True) -> dict[str, Any]:
    return {"type": "array", "items": list(items), "additionalItems": others}


ARRAYS = [
    case("items appear", array(), array(items=TEXT), "-SCHEMA_ADDED #/items", "+SCHEMA_REMOVED #/items"),
    case("items of anything", array(), array(items={})),
    case("items widen", array(items=INTEGER), array(items=NUMBER),
         "+TYPE_EXTENDED #/items", "-TYPE_NARROWED #/items"),
    case("items of none become some", array(items=False), array(items=TEXT), "", "-TYPE_CHANGED #/items"),
    case("maxItems appears", array(), array(maxItems=3), "-MAX_ITEMS_ADDED #/maxItems",
         "+MAX_ITEMS_REMOVED #/maxItems"),
    case("maxItems grows", array(maxItems=2), array(maxItems=3), "+MAX_ITEMS_INCREASED #/maxItems",
         "-MAX_ITEMS_DECREASED #/maxItems"),
    case("minItems appears", array(), array(minItems=1), "-MIN_ITEMS_ADDED #/minItems",
         "+MIN_ITEMS_REMOVED #/minItems"),
    case("minItems grows", array(minItems=1), array(minItems=2), "-MIN_ITEMS_INCREASED #/minItems",
         "+MIN_ITEMS_DECREASED #/minItems"),
    case("uniqueItems appears", array(), array(uniqueItems=True), "-UNIQUE_ITEMS_ADDED #/uniqueItems",
         "+UNIQUE_ITEMS_REMOVED #/uniqueItems"),
    case("uniqueItems: false is the default", array(), array(uniqueItems=False)),
    case("a tuple's item widens", pair(TEXT, INTEGER), pair(TEXT, NUMBER),
         "+TYPE_EXTENDED #/items/1", "-TYPE_NARROWED #/items/1"),
    case("open tuple: an item is added", pair(TEXT), pair(TEXT, TEXT),
         "-ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1", "+ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"),
    case("open tuple: an item that may be anything is added", pair(TEXT), pair(TEXT, {}),
         "+ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",
         "+ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"),
    case("closed tuple: an item is added", pair(TEXT, others=False), pair(TEXT, TEXT, others=False),
         "+ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1",
         "-ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"),
    case("closed tuple: an item that may not be there is removed",
         pair(TEXT, False, others=False), pair(TEXT, others=False),
         "+ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1",
         "+ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"),
    case("partially open tuple: an item that fits is added", pair(TEXT, others=NUMBER),
         pair(TEXT, NUMBER, others=NUMBER),
         "+ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
         "+ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"),
    case("partially open tuple: a narrower item is added", pair(TEXT, others=NUMBER),
         pair(TEXT, INTEGER, others=NUMBER),
         "-ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
         "+ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"),
    case("partially open tuple: a wider item is added", pair(TEXT, others=INTEGER),
         pair(TEXT, NUMBER, others=INTEGER),
         "+ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
         "-ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"),
    case("a closed tuple opens", pair(TEXT, others=False), pair(TEXT),
         "+ADDITIONAL_ITEMS_ADDED #/additionalItems", "-ADDITIONAL_ITEMS_REMOVED #/additionalItems"),
    case("an open tuple is narrowed to a schema", pair(TEXT), pair(TEXT, others=TEXT),
         "-ADDITIONAL_ITEMS_NARROWED #/additionalItems", "+ADDITIONAL_ITEMS_EXTENDED #/additionalItems"),
    case("a tuple's other items widen", pair(TEXT, others=INTEGER), pair(TEXT, others=NUMBER),
         "+TYPE_EXTENDED #/additionalItems", "-TYPE_NARROWED #/additionalItems"),
    case("additionalItems say nothing beside a schema of all items",
         array(items=TEXT), array(items=TEXT, additionalItems=False)),
    case("additionalItems say nothing without a tuple", {"additionalItems": False}, {}),
    case("a list becomes a tuple of the same", array(items=TEXT), pair(TEXT, others=TEXT),
         "+ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/0",
         "+ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/0"),
    case("draft 7's tuple is 2020-12's", pair(TEXT, INTEGER, others=False),
         {"$schema": LATEST, "type": "array", "prefixItems": [TEXT, INTEGER], "items": False}),
    case("2020-12: an item is added to a closed tuple",
         {"$schema": LATEST, "type": "array", "prefixItems": [TEXT], "items": False},
         {"$schema": LATEST, "type": "array", "prefixItems": [TEXT, TEXT], "items": False},
         "+ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/prefixItems/1",
         "-ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/prefixItems/1"),
    case("contains appears", array(), array(contains=TEXT),
         "-SCHEMA_ADDED #/contains", "+SCHEMA_REMOVED #/contains"),
    case("contains widens", array(contains=INTEGER), array(contains=NUMBER),
         "+TYPE_EXTENDED #/contains", "-TYPE_NARROWED #/contains"),
    case("draft 4 has no contains", {"$schema": DRAFT_4, **array()},
         {"$schema": DRAFT_4, **array(contains=TEXT)}),
    case("minContains grows", {"$schema": LATEST, **array(contains=TEXT)},
         {"$schema": LATEST, **array(contains=TEXT, minContains=2)},
         "-MIN_ITEMS_INCREASED #/minContains", ""),
    case("minContains 0 asks for nothing", {"$schema": LATEST, **array()},
         {"$schema": LATEST, **array(contains=TEXT, minContains=0)}, "", "+SCHEMA_REMOVED #/contains"),
    case("maxContains appears", {"$schema": LATEST, **array(contains=TEXT)},
         {"$schema": LATEST, **array(contains=TEXT, maxContains=2)}, "-MAX_ITEMS_ADDED #/maxContains", ""),
    case("maxContains with a wider contains", {"$schema": LATEST, **array(contains=INTEGER, maxContains=2)},
         {"$schema": LATEST, **array(contains=NUMBER, maxContains=2)},
         "+TYPE_EXTENDED #/contains; -TYPE_CHANGED #/contains", "-TYPE_NARROWED #/contains"),
]  # fmt: skip

LARGE, EVEN, POSITIVE = {**NUMBER, "minimum": 100}, {**NUMBER, "multipleOf": 2}, {**NUMBER, "minimum": 0}

COMBINED = [
    case("anyOf gains a subschema", {"anyOf": [TEXT, NOTHING]}, {"anyOf": [TEXT, NOTHING, FLAG]},
         "+SUM_TYPE_EXTENDED #/anyOf", "-SUM_TYPE_NARROWED #/anyOf"),
    case("oneOf gains a subschema", {"oneOf": [TEXT, NOTHING]}, {"oneOf": [FLAG, TEXT, NOTHING]},
         "+SUM_TYPE_EXTENDED #/oneOf", "-SUM_TYPE_NARROWED #/oneOf"),
    case("anyOf in another order", {"anyOf": [TEXT, NOTHING]}, {"anyOf": [NOTHING, TEXT]}),
    case("oneOf in another order", {"oneOf": [TEXT, NOTHING, FLAG]}, {"oneOf": [FLAG, NOTHING, TEXT]}),
    case("a subschema of anyOf widens", {"anyOf": [INTEGER, TEXT]}, {"anyOf": [TEXT, NUMBER]},
         "", "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf; -TYPE_NARROWED #/anyOf/0"),
    case("a subschema of anyOf changes", {"anyOf": [FLAG, TEXT]}, {"anyOf": [INTEGER, TEXT]},
         "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf; -TYPE_CHANGED #/anyOf/0",
         "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf; -TYPE_CHANGED #/anyOf/0"),
    case("a subschema of oneOf changes", {"oneOf": [FLAG, TEXT]}, {"oneOf": [INTEGER, TEXT]},
         "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/oneOf; -TYPE_CHANGED #/oneOf/0",
         "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/oneOf; -TYPE_CHANGED #/oneOf/0"),
    case("matching takes what fits best, not what comes first",
         {"anyOf": [INTEGER, NUMBER, TEXT]}, {"anyOf": [NUMBER, INTEGER, TEXT]}),
    case("two subschemas of anyOf come to the same", {"anyOf": [INTEGER, NUMBER]}, {"anyOf": [NUMBER, TEXT]},
         "", "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf; -TYPE_CHANGED #/anyOf/0"),
    case("a text becomes a sum with it", TEXT, {"anyOf": [NOTHING, TEXT]},
         "+SUM_TYPE_EXTENDED #/anyOf", "-SUM_TYPE_NARROWED #"),
    case("a text becomes an exclusive sum with it", TEXT, {"oneOf": [NOTHING, {**TEXT}, FLAG]},
         "+SUM_TYPE_EXTENDED #/oneOf", "-SUM_TYPE_NARROWED #"),
    case("a text becomes a sum without it", TEXT, {"anyOf": [NOTHING, FLAG]},
         "-TYPE_CHANGED #/anyOf", "-SUM_TYPE_NARROWED #"),
    case("a sum becomes what all its subschemas are", {"anyOf": [INTEGER, {**NUMBER, "minimum": 3}]}, NUMBER,
         "", "-TYPE_CHANGED #/anyOf"),
    case("a sum becomes a list of types", {"oneOf": [TEXT, NOTHING]}, {"type": ["null", "string", "boolean"]},
         "", "-SUM_TYPE_NARROWED #/oneOf"),
    case("oneOf becomes anyOf", {"oneOf": [TEXT, NOTHING]}, {"anyOf": [TEXT, NOTHING]},
         "+COMBINED_TYPE_EXTENDED #/anyOf", "-COMBINED_TYPE_CHANGED #/oneOf"),
    case("oneOf becomes a larger anyOf", {"oneOf": [TEXT, NOTHING]}, {"anyOf": [TEXT, NOTHING, FLAG]},
         "+COMBINED_TYPE_EXTENDED #/anyOf; +SUM_TYPE_EXTENDED #/anyOf", "-COMBINED_TYPE_CHANGED #/oneOf"),
    case("a single anyOf is its subschema", {"anyOf": [TEXT]}, TEXT),
    case("a single allOf becomes a oneOf with more", {"allOf": [TEXT]}, {"oneOf": [TEXT, NOTHING]},
         "+SUM_TYPE_EXTENDED #/oneOf", "-SUM_TYPE_NARROWED #/allOf/0"),
    case("a single anyOf becomes a single allOf", {"anyOf": [TEXT]}, {"allOf": [TEXT]}),
    case("a single oneOf's subschema changes", {"oneOf": [TEXT]}, {"oneOf": [INTEGER]},
         "-TYPE_CHANGED #/oneOf/0", "-TYPE_CHANGED #/oneOf/0"),
    case("allOf gains a subschema", {"allOf": [EVEN, LARGE]}, {"allOf": [EVEN, LARGE, {"maximum": 999}]},
         "-PRODUCT_TYPE_EXTENDED #/allOf", "+PRODUCT_TYPE_NARROWED #/allOf"),
    case("allOf gains a subschema that holds anyway", {"allOf": [EVEN, LARGE]}, {"allOf": [EVEN, LARGE, POSITIVE]},
         "", "+PRODUCT_TYPE_NARROWED #/allOf"),
    case("allOf in another order", {"allOf": [EVEN, LARGE]}, {"allOf": [LARGE, EVEN]}),
    case("a subschema of allOf widens", {"allOf": [EVEN, LARGE]}, {"allOf": [EVEN, POSITIVE]},
         "", "-COMBINED_TYPE_SUBSCHEMAS_CHANGED #/allOf; -MINIMUM_INCREASED #/allOf/1/minimum"),
    case("a subschema must hold beside what is there", TEXT, {**TEXT, "allOf": [{"maxLength": 3}]},
         "+TYPE_EXTENDED #/allOf/0; -MAX_LENGTH_ADDED #/allOf/0/maxLength", "+PRODUCT_TYPE_NARROWED #/allOf"),
    case("a subschema that holds anyway", {**TEXT, "maxLength": 2}, {**TEXT, "maxLength": 2, "allOf": [TEXT]},
         "", "+PRODUCT_TYPE_NARROWED #/allOf"),
    case("what allOf asks for moves beside it", {"allOf": [TEXT, {"maxLength": 3}]}, TEXT,
         "+PRODUCT_TYPE_NARROWED #/allOf", "-PRODUCT_TYPE_EXTENDED #/allOf"),
    case("allOf becomes anyOf", {"allOf": [EVEN, LARGE]}, {"anyOf": [EVEN, LARGE]},
         "+PRODUCT_TYPE_NARROWED #/allOf; +COMBINED_TYPE_EXTENDED #/anyOf", "-PRODUCT_TYPE_EXTENDED #/allOf"),
    case("allOf becomes an anyOf of others", {"allOf": [EVEN, LARGE]}, {"anyOf": [TEXT, FLAG]},
         "+PRODUCT_TYPE_NARROWED #/allOf; -COMBINED_TYPE_CHANGED #/anyOf", "-PRODUCT_TYPE_EXTENDED #/allOf"),
    case("a sum beside properties", {**opened(a=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {**opened(a=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]},
         "+SUM_TYPE_EXTENDED #/oneOf", "-SUM_TYPE_NARROWED #/oneOf"),
    case("a sum appears beside properties", opened(a=TEXT),
         {**opened(a=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
         "-TYPE_CHANGED #/anyOf", ""),
    case("an event is added to a topic's events",
         {"oneOf": [closed(kind={"const": "a"}), closed(kind={"const": "b"})]},
         {"oneOf": [closed(kind={"const": "b"}), closed(kind={"const": "c"}), closed(kind={"const": "a"})]},
         "+SUM_TYPE_EXTENDED #/oneOf", "-SUM_TYPE_NARROWED #/oneOf"),
    case("two sums beside each other", {"anyOf": [TEXT, FLAG], "oneOf": [TEXT, INTEGER]},
         {"anyOf": [TEXT, FLAG, NOTHING], "oneOf": [TEXT, INTEGER]},
         "+SUM_TYPE_EXTENDED #/anyOf", "-SUM_TYPE_NARROWED #/anyOf"),
    case("not excludes less", {"not": NUMBER}, {"not": INTEGER},
         "+NOT_TYPE_NARROWED #/not", "-NOT_TYPE_EXTENDED #/not"),
    case("not appears", TEXT, {**TEXT, "not": {"const": "x"}},
         "-NOT_TYPE_EXTENDED #/not", "+NOT_TYPE_NARROWED #/not"),
    case("not appears and excludes nothing that was there", INTEGER, {**INTEGER, "not": {"enum": ["x", -0.5]}},
         "", "+NOT_TYPE_NARROWED #/not"),
    case("not excludes other values than the list has", {"enum": ["a", "b"]}, {**TEXT, "not": {"const": "c"}},
         "+ENUM_ARRAY_EXTENDED #/enum", "-ENUM_ARRAY_NARROWED #/enum; +NOT_TYPE_NARROWED #/not"),
    case("not excludes something else", {"not": TEXT}, {"not": INTEGER},
         "-NOT_TYPE_EXTENDED #/not", "-NOT_TYPE_EXTENDED #/not"),
    case("not of a not", {"not": {"not": INTEGER}}, {"not": {"not": NUMBER}},
         "+NOT_TYPE_NARROWED #/not", "-NOT_TYPE_EXTENDED #/not"),
    case("under a not a default is no way out",
         {"not": {**opened(a={**TEXT, "default": ""}), "required": ["a"]}},
         {"not": opened(a={**TEXT, "default": ""})},
         "-NOT_TYPE_EXTENDED #/not", "+NOT_TYPE_NARROWED #/not"),
]  # fmt: skip

GERMAN = {"properties": {"country": {"const": "DE"}}}
CONDITIONS = [
    case("a condition appears", opened(), {**opened(), "if": GERMAN, "then": {"required": ["zip"]}},
         "-SCHEMA_ADDED #/if", "+SCHEMA_REMOVED #/if"),
    case("a condition without then or else says nothing", opened(), {**opened(), "if": GERMAN}),
    case("then widens", {"if": GERMAN, "then": {"maxProperties": 2}}, {"if": GERMAN, "then": {"maxProperties": 3}},
         "+MAX_PROPERTIES_INCREASED #/then/maxProperties", "-MAX_PROPERTIES_DECREASED #/then/maxProperties"),
    case("else appears", {"if": GERMAN, "then": {"maxProperties": 2}},
         {"if": GERMAN, "then": {"maxProperties": 2}, "else": {"maxProperties": 1}},
         "-MAX_PROPERTIES_ADDED #/else/maxProperties", "+SCHEMA_REMOVED #/else"),
    case("if changes", {"if": GERMAN, "then": {"maxProperties": 2}},
         {"if": {"properties": {"country": {"const": "AT"}}}, "then": {"maxProperties": 2}},
         "-TYPE_CHANGED #/if", "-TYPE_CHANGED #/if"),
    case("a condition whose ends hold anyway", {**opened(), "maxProperties": 2},
         {**opened(), "maxProperties": 2, "if": GERMAN, "then": {"maxProperties": 3}},
         "", "+SCHEMA_REMOVED #/if"),
    case("then changes to what holds anyway", {"maxProperties": 2, "if": GERMAN, "then": {"minProperties": 1}},
         {"maxProperties": 2, "if": GERMAN, "then": {"maxProperties": 3}},
         "", "+MAX_PROPERTIES_REMOVED #/then/maxProperties; -MIN_PROPERTIES_ADDED #/then/minProperties"),
    case("draft 4 has no conditions", {"$schema": DRAFT_4, **opened()},
         {"$schema": DRAFT_4, **opened(), "if": {}, "then": TEXT}),
]  # fmt: skip


def tree(**more: Any) -> dict[str, Any]:
    node = closed(value=TEXT, children=array(items={"$ref": "#/definitions/node"}), **more)
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def circle(leaf: Any) -> dict[str, Any]:
    return {"a": opened(w={"$ref": "#/definitions/w"}, y=leaf), "w": opened(a={"$ref": "#/definitions/a"})}


def unevaluated(parts: list[Any], rest: Any = False, **properties: Any) -> dict[str, Any]:
    return {
        "$schema": LATEST, "type": "object", "allOf": parts, "properties": properties,
        "unevaluatedProperties": rest,
    }  # fmt: skip


REFERENCES = [
    case("a definition moves inline",
         {**opened(a={"$ref": "#/definitions/t"}), "definitions": {"t": TEXT}}, opened(a=TEXT)),
    case("a definition is renamed",
         {**opened(a={"$ref": "#/definitions/t"}), "definitions": {"t": TEXT}},
         {"$schema": LATEST, **opened(a={"$ref": "#/$defs/u"}), "$defs": {"u": TEXT}}),
    case("a definition changes: told where it is used",
         {**opened(a={"$ref": "#/definitions/t"}), "definitions": {"t": INTEGER}},
         {**opened(a={"$ref": "#/definitions/t"}), "definitions": {"t": NUMBER}},
         "+TYPE_EXTENDED #/properties/a", "-TYPE_NARROWED #/properties/a"),
    case("an unused definition changes", {**TEXT, "definitions": {"t": INTEGER}}, {**TEXT, "definitions": {}}),
    case("a recursive schema gains a property", tree(), tree(note=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/note",
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/note"),
    case("a recursive schema is unrolled once", tree(),
         {**tree(), "$ref": "#/definitions/top", "definitions": {
             **tree()["definitions"], "top": tree()["definitions"]["node"]}}),
    case("draft 7 looks at nothing beside $ref",
         {"$ref": "#/definitions/t", "maxLength": 3, "definitions": {"t": TEXT}},
         {"$ref": "#/definitions/t", "maxLength": 1, "definitions": {"t": TEXT}}),
    case("2020-12 looks beside $ref",
         {"$schema": LATEST, "$ref": "#/$defs/t", "maxLength": 3, "$defs": {"t": TEXT}},
         {"$schema": LATEST, "$ref": "#/$defs/t", "maxLength": 1, "$defs": {"t": TEXT}},
         "-MAX_LENGTH_DECREASED #/maxLength", "+MAX_LENGTH_INCREASED #/maxLength"),
    case("a reference by $id",
         {**opened(a={"$ref": "text"}), "$id": "http://e/root", "definitions": {"t": {"$id": "text", **INTEGER}}},
         {**opened(a={"$ref": "text"}), "$id": "http://e/root", "definitions": {"t": {"$id": "text", **NUMBER}}},
         "+TYPE_EXTENDED #/properties/a", "-TYPE_NARROWED #/properties/a"),
    case("a reference by $anchor",
         {"$schema": LATEST, **opened(a={"$ref": "#t"}), "$defs": {"t": {"$anchor": "t", **INTEGER}}},
         {"$schema": LATEST, **opened(a={"$ref": "#t"}), "$defs": {"t": {"$anchor": "t", **NUMBER}}},
         "+TYPE_EXTENDED #/properties/a", "-TYPE_NARROWED #/properties/a"),
    case("2019-09's recursive reference",
         {"$schema": DRAFT_2019, "$recursiveAnchor": True, **closed(next={"$recursiveRef": "#"}, v=INTEGER)},
         {"$schema": DRAFT_2019, "$recursiveAnchor": True, **closed(next={"$recursiveRef": "#"}, v=NUMBER)},
         "+TYPE_EXTENDED #/properties/v", "-TYPE_NARROWED #/properties/v"),
    case("two references beside each other must both hold",
         {"$schema": LATEST, "$ref": "#/$defs/t", "$defs": {"t": TEXT, "u": {"$dynamicAnchor": "u", "maxLength": 3}}},
         {"$schema": LATEST, "$ref": "#/$defs/t", "$dynamicRef": "#u",
          "$defs": {"t": TEXT, "u": {"$dynamicAnchor": "u", "maxLength": 3}}},
         "-PRODUCT_TYPE_EXTENDED #/allOf", "+PRODUCT_TYPE_NARROWED #/allOf"),
    case("what held only as long as a circle seemed compatible is not kept",
         {"anyOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/w"}], "definitions": circle(INTEGER)},
         {"anyOf": [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/w"}, opened(w={"type": "object"}, y=INTEGER)],
          "definitions": circle(TEXT)},
         "+SUM_TYPE_EXTENDED #/anyOf; -COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf;"
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/anyOf/0/properties/w;"
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/anyOf/0/properties/y;"
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/anyOf/0/properties/a",
         "-SUM_TYPE_NARROWED #/anyOf"),
    case("a schema that is not what it is made of",
         {"$ref": "#/definitions/n", "definitions": {"n": {"not": opened(x={"$ref": "#/definitions/n"})}}},
         {"$ref": "#/definitions/m", "definitions": {"m": {"not": opened(x={"$ref": "#/definitions/m"})}}}),
    case("a schema that means only itself", {"$ref": "#"}, {"$ref": "#", "title": "x"}),
]  # fmt: skip

BASE = {"properties": {"id": INTEGER}}
UNEVALUATED = [
    case("alone it is additionalProperties", {"$schema": LATEST, **closed(a=TEXT)},
         {"$schema": LATEST, **opened(a=TEXT), "unevaluatedProperties": False}),
    case("alone: a closed model opens", {"$schema": LATEST, **opened(), "unevaluatedProperties": False},
         {"$schema": LATEST, **opened()},
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties",
         "-UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"),
    case("alone: it is narrowed to a schema", {"$schema": LATEST, **opened(), "unevaluatedProperties": True},
         {"$schema": LATEST, **opened(), "unevaluatedProperties": TEXT},
         "-UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties",
         "+UNEVALUATED_PROPERTIES_EXTENDED #/unevaluatedProperties"),
    case("beside allOf: an optional property is added", unevaluated([BASE, BASE]), unevaluated([BASE, BASE], b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b;"
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("beside an if: what it speaks of may be there",
         {"$schema": LATEST, **opened(), "if": {"properties": {"a": {}}}, "unevaluatedProperties": False},
         {"$schema": LATEST, **opened(), "unevaluatedProperties": False},
         "-UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"),
    case("beside allOf: it goes", unevaluated([BASE, BASE]), unevaluated([BASE, BASE], True),
         "+UNEVALUATED_PROPERTIES_ADDED #/unevaluatedProperties",
         "-UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"),
    case("beside allOf: a subschema with properties goes",
         unevaluated([BASE, {"properties": {"x": TEXT}}]), unevaluated([BASE]),
         "-PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/x; +PRODUCT_TYPE_NARROWED #/allOf",
         ""),
    case("beside allOf: a subschema with a pattern goes",
         unevaluated([BASE, {"patternProperties": {"^x": TEXT}}]), unevaluated([BASE]),
         "-UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties; +PRODUCT_TYPE_NARROWED #/allOf",
         "-PRODUCT_TYPE_EXTENDED #/allOf"),
    case("beside allOf: a subschema that speaks of everything goes",
         unevaluated([BASE, {"additionalProperties": TEXT}]), unevaluated([BASE]),
         "-UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties; +PRODUCT_TYPE_NARROWED #/allOf",
         "-PRODUCT_TYPE_EXTENDED #/allOf"),
    case("beside allOf: a property is added that a subschema speaks of",
         unevaluated([BASE, BASE]), unevaluated([BASE, BASE], id=TEXT),
         "-OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/id",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/id"),
    case("items alone", {"$schema": LATEST, **array(prefixItems=[TEXT], items=False)},
         {"$schema": LATEST, **array(prefixItems=[TEXT], unevaluatedItems=False)}),
    case("items alone: opened", {"$schema": LATEST, **array(prefixItems=[TEXT], unevaluatedItems=False)},
         {"$schema": LATEST, **array(prefixItems=[TEXT], unevaluatedItems=True)},
         "+UNEVALUATED_ITEMS_ADDED #/unevaluatedItems", "-UNEVALUATED_ITEMS_REMOVED #/unevaluatedItems"),
    case("items beside contains: opened", {"$schema": LATEST, **array(contains=TEXT, unevaluatedItems=INTEGER)},
         {"$schema": LATEST, **array(contains=TEXT)},
         "+UNEVALUATED_ITEMS_EXTENDED #/unevaluatedItems", "-UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems"),
]  # fmt: skip

AREAS = {
    "types": TYPES,
    "strings": STRINGS,
    "numbers": NUMBERS,
    "values": VALUES,
    "objects": OBJECTS,
    "patterns": PATTERNS,
    "dependencies": DEPENDENCIES,
    "arrays": ARRAYS,
    "combined": COMBINED,
    "conditions": CONDITIONS,
    "references": REFERENCES,
    "unevaluated": UNEVALUATED,
}
CASES = [pytest.param(each, id=f"{area}: {each.name}") for area, cases in AREAS.items() for each in cases]


def parse(schema: Any) -> JsonSchema:
    return FORMAT.parse(json.dumps(schema), {})


def told(old: Any, new: Any, policy: CompatibilityPolicy = STRICT) -> list[str]:
    """The differences, in the form of the table."""
    found = parse(new).differences(parse(old), policy)
    return [f"{'+' if each.kind in COMPATIBLE[policy] else '-'}{each.kind} {each.pointer}" for each in found]


@pytest.mark.parametrize("each", CASES)
def test_the_rules_case_by_case(each: Case) -> None:
    assert told(each.old, each.new) == list(each.backward)
    assert told(each.new, each.old) == list(each.forward)


@pytest.mark.parametrize("each", CASES)
def test_what_is_told_to_clients_are_the_incompatible_differences(each: Case) -> None:
    found = parse(each.new).incompatibilities(parse(each.old))

    assert [f"-{one.type}" for one in found] == [line.split()[0] for line in each.backward if line[0] == "-"]
    places = [line.split()[1] for line in each.backward if line[0] == "-"]
    assert all(f"'{place}'" in one.description for place, one in zip(places, found, strict=True))


# What LENIENT adds to STRICT: optional properties come and go whatever the content model.
LENIENT_CASES = [
    case("an optional property in an open model", opened(a=TEXT), opened(a=TEXT, b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("an optional property in a closed model", closed(a=TEXT), closed(a=TEXT, b=TEXT),
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("a required property in an open model", opened(), {**opened(b=TEXT), "required": ["b"]},
         "-REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("a required property with a default in an open model", opened(),
         {**opened(b={**TEXT, "default": ""}), "required": ["b"]},
         "+REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/b"),
    case("a required property in a closed model", closed(), {**closed(b=TEXT), "required": ["b"]},
         "-REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
         "+REQUIRED_ATTRIBUTE_REMOVED #/required/b; +PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"),
    case("a property that the rest contradicts", rest(NUMBER), rest(NUMBER, a=TEXT),
         "+PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a;"
         "+OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
         "+PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"),
    case("an open model closes", opened(), closed(),
         "+ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"),
    case("an open model is narrowed", opened(), rest(TEXT),
         "+ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties",
         "+ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"),
    case("unevaluated properties are narrowed", {"$schema": LATEST, **opened()},
         {"$schema": LATEST, **opened(), "unevaluatedProperties": False},
         "+UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",
         "+ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"),
    case("an optional property within allOf", {"allOf": [opened(a=TEXT), opened(x=FLAG)]},
         {"allOf": [opened(a=TEXT, b=TEXT), opened(x=FLAG)]}),
    case("a property's type", opened(a=TEXT), opened(a=INTEGER),
         "-TYPE_CHANGED #/properties/a", "-TYPE_CHANGED #/properties/a"),
    case("an item in an open tuple", pair(TEXT), pair(TEXT, TEXT),
         "-ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1", "+ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"),
    case("a property becomes required", opened(a=TEXT), {**opened(a=TEXT), "required": ["a"]},
         "-REQUIRED_ATTRIBUTE_ADDED #/required/a", "+REQUIRED_ATTRIBUTE_REMOVED #/required/a"),
]  # fmt: skip


@pytest.mark.parametrize("each", [pytest.param(each, id=each.name) for each in LENIENT_CASES])
def test_the_rules_of_the_lenient_policy(each: Case) -> None:
    assert told(each.old, each.new, LENIENT) == list(each.backward)
    assert told(each.new, each.old, LENIENT) == list(each.forward)


# Where Confluent's rules are not those of a validator, on purpose.
UNSOUND = [
    pytest.param(
        closed(), {**closed(b={**TEXT, "default": ""}), "required": ["b"]}, {},
        id="a required property with a default: the reader fills it in",
    ),
    pytest.param(
        opened(a={**TEXT, "default": ""}), {**opened(a={**TEXT, "default": ""}), "required": ["a"]}, {},
        id="a property with a default becomes required: the reader fills it in",
    ),
    pytest.param(
        {"oneOf": [requiring("a"), TEXT]}, {"oneOf": [requiring("a"), TEXT, requiring("b")]}, {"a": 1, "b": 1},
        id="oneOf gains an object that some of another one's data fits too",
    ),
    pytest.param(
        {"oneOf": [requiring("a"), requiring("b", "c")]}, {"oneOf": [requiring("a"), requiring("b")]},
        {"a": 1, "b": 1},
        id="an object of oneOf widens over some data of another one",
    ),
    pytest.param(
        requiring("a"), {"oneOf": [requiring("a"), requiring("b")]}, {"a": 1, "b": 1},
        id="an object becomes a oneOf whose objects overlap",
    ),
    pytest.param(
        array(items=TEXT), {"oneOf": [array(items=TEXT), array(items=INTEGER)]}, [],
        id="an array becomes a oneOf whose arrays overlap",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "value"), UNSOUND)
def test_what_confluent_lets_pass_though_a_validator_does_not(old: Any, new: Any, value: Any) -> None:
    assert not parse(new).incompatibilities(parse(old))
    assert parse(old).validate(value) == []
    assert parse(new).validate(value) != []


@pytest.mark.parametrize(("old", "new", "value"), UNSOUND)
def test_under_a_negation_it_lets_nothing_pass(old: Any, new: Any, value: Any) -> None:
    assert parse({"not": old}).incompatibilities(parse({"not": new}))


WITH_DEFAULT = opened(a={**TEXT, "default": ""})
# What no longer validates, though Confluent's rules or the members of the schemas pair up well.
LOST = [
    pytest.param({"anyOf": [INTEGER, NUMBER]}, {"oneOf": [INTEGER, NUMBER]}, 1,
                 id="anyOf becomes a oneOf whose subschemas overlap"),
    pytest.param({"anyOf": [TEXT, {"maxLength": 3}]}, {"oneOf": [{}, TEXT]}, "a",
                 id="anyOf becomes a oneOf of which one subschema takes in everything"),
    pytest.param({"type": ["integer", "number"]}, {"oneOf": [INTEGER, NUMBER]}, 1,
                 id="a list of types becomes a oneOf whose subschemas overlap"),
    pytest.param({"type": ["boolean", "string"]}, {"oneOf": [{"minItems": 1}, {"multipleOf": 2}]}, "a",
                 id="a list of types becomes a oneOf of subschemas for other types"),
    pytest.param({"allOf": [EVEN, LARGE]}, {"oneOf": [EVEN, LARGE]}, 100,
                 id="allOf becomes oneOf"),
    pytest.param({"allOf": [EVEN, LARGE]}, {"oneOf": [NUMBER, POSITIVE]}, 100,
                 id="allOf becomes a oneOf whose subschemas it fits both"),
    pytest.param({"oneOf": [{**INTEGER, "maximum": 0}, {**INTEGER, "minimum": 5}]},
                 {"oneOf": [NUMBER, {**INTEGER, "minimum": 5}]}, 5,
                 id="two subschemas of oneOf come to one that overlaps with another"),
    pytest.param({"oneOf": [{**INTEGER, "maximum": 0}, {**INTEGER, "minimum": 5}]},
                 {"oneOf": [{**TEXT, "maxLength": 3}, INTEGER, {**NUMBER, "minimum": 7}]}, 8,
                 id="two subschemas of oneOf come to one, and a new one overlaps"),
    pytest.param({"oneOf": [TEXT, INTEGER]}, {"oneOf": [TEXT, INTEGER, NUMBER]}, 1,
                 id="oneOf gains a subschema that another one's data fits too"),
    pytest.param({"oneOf": [TEXT, {"enum": [1, 2]}]}, {"oneOf": [TEXT, {"enum": [1, 2]}, {"enum": ["x", 2]}]}, 2,
                 id="oneOf gains a list with a value that there is"),
    pytest.param({"oneOf": [TEXT, {"enum": list(range(300))}]},
                 {"oneOf": [TEXT, {"enum": list(range(300))}, {"enum": list(range(299, 600))}]}, 299,
                 id="oneOf gains a long list with a value that there is"),
    pytest.param({"oneOf": [TEXT, {**NUMBER, "multipleOf": 7}]},
                 {"oneOf": [TEXT, {**NUMBER, "multipleOf": 7}, {**NUMBER, "multipleOf": 11}]}, 77,
                 id="oneOf gains a number with other factors"),
    pytest.param({"oneOf": [INTEGER, {**NUMBER, "minimum": 0.5, "maximum": 0.6}]}, {"oneOf": [INTEGER, NUMBER]}, 1,
                 id="a subschema of oneOf widens over another one"),
    pytest.param({"oneOf": [{**NUMBER, "maximum": 5}, TEXT]},
                 {"oneOf": [{**NUMBER, "maximum": 5}, {**NUMBER, "minimum": 4}, TEXT]}, 4,
                 id="oneOf gains a subschema that overlaps in a few numbers"),
    pytest.param(INTEGER, {"oneOf": [INTEGER, NUMBER]}, 1,
                 id="a schema becomes a oneOf whose subschemas overlap"),
    pytest.param({"enum": [1, "a"]}, {"oneOf": [{"enum": [1, "a"]}, TEXT]}, "a",
                 id="a list becomes a oneOf with a subschema that one of its values fits"),
    pytest.param({"const": {"a": ""}}, {"const": {"a": ""}, "minProperties": 2}, {"a": ""},
                 id="a listed object must have more properties"),
    pytest.param(opened(a=INTEGER), opened(a={"oneOf": [INTEGER, {"minimum": 3}]}), {"a": 3},
                 id="a property becomes a oneOf whose subschemas overlap"),
    pytest.param({"oneOf": [requiring("a"), TEXT]}, {"oneOf": [requiring("a"), TEXT, {"type": "object"}]}, {"a": 1},
                 id="oneOf gains a subschema that all of an object's data fits too"),
    pytest.param(requiring("a"), {"oneOf": [requiring("a"), {"type": "object"}]}, {"a": 1},
                 id="an object becomes a oneOf whose subschemas it fits both"),
    pytest.param({"$schema": LATEST, **array(contains={**WITH_DEFAULT, "required": ["a"]}, maxContains=1)},
                 {"$schema": LATEST, **array(contains=WITH_DEFAULT, maxContains=1)}, [{"a": ""}, {}],
                 id="more items fit contains, which a default seemed to make up for"),
]  # fmt: skip


@pytest.mark.parametrize("policy", [STRICT, LENIENT])
@pytest.mark.parametrize(("old", "new", "value"), LOST)
def test_what_is_known_to_refuse_old_data_is_incompatible(
    old: Any, new: Any, value: Any, policy: CompatibilityPolicy
) -> None:
    assert parse(old).validate(value) == []
    assert parse(new).validate(value) != []
    assert parse(new).incompatibilities(parse(old), policy)


KIND_A, KIND_B = opened(kind={"const": "a"}), opened(kind={"const": "b"})
# Changes to oneOf that people make and that lose nothing, or that Confluent's rules allow for objects.
KEPT = [
    pytest.param(TEXT, {"oneOf": [NOTHING, TEXT]}, id="a text may be null"),
    pytest.param({**TEXT, "enum": ["a", "b"]}, {"oneOf": [NOTHING, {**TEXT, "enum": ["a", "b", "c"]}]},
                 id="a list may be null"),
    pytest.param({"type": ["string", "null"]}, {"oneOf": [NOTHING, TEXT]}, id="types become a oneOf"),
    pytest.param({"type": ["string", "null"]}, {"oneOf": [NOTHING, TEXT, FLAG]}, id="types become a larger oneOf"),
    pytest.param({"anyOf": [INTEGER, {**NUMBER, "minimum": 3}]}, {"oneOf": [NUMBER, TEXT]},
                 id="anyOf comes to one subschema of a oneOf"),
    pytest.param({"allOf": [EVEN, LARGE]}, {"oneOf": [NUMBER, TEXT]}, id="allOf comes to one subschema of a oneOf"),
    pytest.param({**TEXT, "maxLength": 3}, {"oneOf": [{**TEXT, "maxLength": 3}, {**TEXT, "minLength": 4}]},
                 id="a text becomes a oneOf of texts of other lengths"),
    pytest.param({"oneOf": [{**NUMBER, "maximum": 5}, TEXT]},
                 {"oneOf": [{**NUMBER, "maximum": 5}, {**NUMBER, "exclusiveMinimum": 5}, TEXT]},
                 id="oneOf gains a range of numbers beside another"),
    pytest.param({"oneOf": [{**KIND_A, "required": ["kind"]}, TEXT]},
                 {"oneOf": [{**KIND_A, "required": ["kind"]}, {**KIND_B, "required": ["kind"]}, TEXT]},
                 id="oneOf gains an object with a tag"),
    pytest.param({"allOf": [{**KIND_A, "required": ["kind"]}, opened(x=TEXT)]},
                 {"oneOf": [{**KIND_A, "required": ["kind"]}, {**KIND_B, "required": ["kind"]}]},
                 id="objects with a tag become a oneOf of objects with tags"),
    pytest.param({"allOf": [{**closed(a=TEXT), "required": ["a"]}, opened()]},
                 {"oneOf": [{**closed(a=TEXT), "required": ["a"]}, {**closed(b=TEXT), "required": ["b"]}]},
                 id="a closed object becomes a oneOf of objects with other required properties"),
    pytest.param({"oneOf": [closed(a=TEXT), closed(b=TEXT)]},
                 {"oneOf": [closed(a=TEXT), closed(b=TEXT), closed(c=TEXT)]},
                 id="oneOf gains a record all of whose properties are optional"),
    pytest.param({"oneOf": [{**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "^b"}]},
                 {"oneOf": [{**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "^b"}, {**TEXT, "pattern": "^c"}]},
                 id="oneOf gains a text with another pattern"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_a_sensible_change_to_one_of_is_compatible(old: Any, new: Any) -> None:
    assert not parse(new).incompatibilities(parse(old))


@pytest.mark.parametrize("each", CASES)
def test_what_is_compatible_strictly_is_so_leniently(each: Case) -> None:
    old, new = parse(each.old), parse(each.new)
    for reader, writer in ((new, old), (old, new)):
        if not reader.incompatibilities(writer):
            assert not reader.incompatibilities(writer, LENIENT)


@pytest.mark.parametrize("each", CASES)
def test_a_schema_is_compatible_with_itself(each: Case) -> None:
    for schema in (each.old, each.new):
        # Another title makes another text: the walk is done, not the short cut for equal texts.
        other = {**schema, "title": "other"} if isinstance(schema, dict) else schema
        assert [line for line in told(schema, other) if line[0] == "-"] == []
