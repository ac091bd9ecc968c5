"""A subschema as the comparison sees it: in the same form for all drafts and spellings.

A schema is a conjunction: a base (its types, their keywords, its listed values), subschemas that must all
hold (`allOf`, a `$ref` beside other keywords), sums, of whose members one must hold (`anyOf`, `oneOf`), a
negation and a condition. Combinations of one subschema count as subschemas that must hold. Annotations don't
count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.schemas.json_schema.dialects import DRAFT_4, Dialect
from ottla.schemas.json_schema.differences import Path
from ottla.schemas.json_schema.documents import json_key

SchemaValue = Any
"""A boolean or a dict."""

ALL_TYPES: Final = frozenset({"null", "boolean", "object", "array", "string", "integer", "fraction"})
"""JSON's types, with numbers split into integers and fractions."""
_NUMBER: Final = frozenset({"integer", "fraction"})

STRING_KEYWORDS: Final = frozenset({"minLength", "maxLength", "pattern"})
NUMBER_KEYWORDS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
OBJECT_KEYWORDS: Final = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "required",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    }
)
ARRAY_KEYWORDS: Final = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
    }
)
BASE_KEYWORDS: Final = (
    STRING_KEYWORDS | NUMBER_KEYWORDS | OBJECT_KEYWORDS | ARRAY_KEYWORDS | {"type", "enum", "const"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """A subschema that must hold, and its path."""

    path: Path
    schema: SchemaValue


@dataclass(frozen=True, slots=True)
class Sum:
    """Subschemas of which one must hold; exactly one if the keyword is `oneOf`."""

    keyword: str
    members: tuple[SchemaValue, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A schema split into its requirements."""

    dialect: Dialect
    keywords: Mapping[str, Any]
    """The schema's BASE_KEYWORDS; Draft 4's exclusive limits are spelt as in the later drafts."""
    types: frozenset[str]
    """The members of ALL_TYPES that its `type` and its listed values allow."""
    values: Mapping[object, Any] | None
    """Its listed values (`enum`, `const`) by their keys; None if it lists none."""
    parts: tuple[Part, ...]
    sums: tuple[Sum, ...]
    negated: SchemaValue | None
    condition: tuple[SchemaValue, SchemaValue, SchemaValue] | None
    """if, then, else. Without then and else it restricts nothing, but still covers properties and items."""
    size: int = 1
    """The number of its keywords, and of the names, subschemas and values under them."""

    @property
    def is_conditional(self) -> bool:
        """Whether it has a condition that restricts values."""
        return self.condition is not None and not (self.condition[1] is self.condition[2] is True)

    @property
    def has_subschemas(self) -> bool:
        """Whether subschemas apply in place, and so may cover its properties and items."""
        return bool(self.parts or self.sums or self.condition or "dependentSchemas" in self.keywords)

    @property
    def has_base(self) -> bool:
        return bool(self.keywords)

    @property
    def type_words(self) -> int:
        """The number of types that its `type` names."""
        named = self.keywords.get("type", ())
        return len(named) if isinstance(named, list) else 1

    @property
    def is_base(self) -> bool:
        """Whether it only has a base."""
        rest = self.parts or self.sums or self.is_conditional or self.negated is not None
        return self.has_base and not rest

    @property
    def is_unrestricted(self) -> bool:
        """Whether it has no requirement at all."""
        rest = self.parts or self.sums or self.is_conditional or self.negated is not None
        return not self.has_base and not rest

    @property
    def lone_part(self) -> Part | None:
        """Its only requirement, if that is a subschema that must hold; else None."""
        rest = self.keywords or self.sums or self.is_conditional or self.negated is not None
        return self.parts[0] if len(self.parts) == 1 and not rest else None


def view_of(schema: Mapping[str, Any], dialect: Dialect, targets: Sequence[SchemaValue]) -> View:
    """The view of a schema; `targets` are the schemas to which its references lead."""
    if targets and dialect.ref_hides_siblings:
        return View(dialect, {}, ALL_TYPES, None, (Part((), targets[0]),), (), None, None)
    said = {name: value for name, value in schema.items() if name in dialect.keywords}
    keywords = {name: value for name, value in said.items() if name in BASE_KEYWORDS}
    if dialect is DRAFT_4:
        _modern_limits(keywords, schema)
    if "additionalItems" in keywords and not isinstance(keywords.get("items"), list):
        del keywords["additionalItems"]  # it has no meaning without a tuple
    if "contains" not in keywords:
        keywords.pop("minContains", None)
        keywords.pop("maxContains", None)
    values = _listed_values(keywords)
    types = types_of(keywords.get("type"))
    if values is not None:  # values of other types than its `type` names can't occur
        values = {key: value for key, value in values.items() if type_of(value) in types}
        types = frozenset(type_of(value) for value in values.values())
    sums = tuple(
        Sum(keyword, tuple(said[keyword]))
        for keyword in ("anyOf", "oneOf")
        if keyword in said and len(said[keyword]) > 1
    )
    condition = None
    if "if" in said:
        condition = (said["if"], said.get("then", True), said.get("else", True))
    parts = tuple(_parts(said, targets))
    size = len(said) + sum(len(value) for value in said.values() if isinstance(value, (dict, list)))
    return View(dialect, keywords, types, values, parts, sums, said.get("not"), condition, size)


def base_of(view: View) -> dict[str, Any]:
    """A schema with the base of `view` alone, in its draft."""
    base = dict(view.keywords)
    if view.dialect is DRAFT_4:
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if exclusive in base:
                base[limit] = base[exclusive]
                base[exclusive] = True
    return base


def is_false(schema: SchemaValue) -> bool:
    """Whether no value fits the schema: `false`, or `{"not": {}}`, as in drafts without boolean schemas."""
    return schema is False or (
        isinstance(schema, dict) and schema.get("not") in (True, {}) and len(schema) == 1
    )


def type_of(value: Any) -> str:
    """The member of ALL_TYPES of a JSON value; 1.0 is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case _:
            return "integer"


def types_of(named: str | list[str] | None) -> frozenset[str]:
    """The members of ALL_TYPES that the value of `type` allows."""
    if named is None:
        return ALL_TYPES
    found: frozenset[str] = frozenset()
    for name in (named,) if isinstance(named, str) else named:
        found |= _NUMBER if name == "number" else {name}
    return found


def _parts(said: Mapping[str, Any], targets: Sequence[SchemaValue]) -> Iterator[Part]:
    yield from (Part((), target) for target in targets)
    for index, schema in enumerate(said.get("allOf", ())):
        yield Part(("allOf", str(index)), schema)
    for keyword in ("anyOf", "oneOf"):
        if len(said.get(keyword, ())) == 1:
            yield Part((keyword, "0"), said[keyword][0])


def _listed_values(keywords: Mapping[str, Any]) -> Mapping[object, Any] | None:
    listed: dict[object, Any] | None = None
    if "enum" in keywords:
        listed = {json_key(value): value for value in keywords["enum"]}
    if "const" in keywords:
        constant = json_key(keywords["const"])
        if listed is None or constant in listed:
            listed = {constant: keywords["const"]}
        else:
            listed = {}
    return listed


def _modern_limits(keywords: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Spell Draft 4's exclusive limits (`exclusiveMaximum: true` beside `maximum`) as in later drafts."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if limit in keywords and schema.get(exclusive) is True:
            keywords[exclusive] = keywords.pop(limit)
