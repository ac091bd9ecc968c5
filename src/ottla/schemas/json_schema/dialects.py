"""The drafts of JSON Schema: which draft a schema is written in, and whether it conforms to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urljoin

import jsonschema
import jsonschema.validators
import referencing.jsonschema
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as SPECIFICATIONS  # type: ignore[import-untyped]  # has none

from ottla.schemas.format import InvalidSchema
from ottla.schemas.json_schema import value_patterns, value_steps
from ottla.schemas.json_schema.documents import json_key

_MAX_MESSAGE_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A draft: its validator, its rules for ids and anchors, and its keywords."""

    name: str
    validator: type[Validator]
    """The class that checks values."""
    specification: referencing.Specification[Any]
    ref_hides_siblings: bool
    """Whether all keywords beside a `$ref` are ignored, as they are up to draft 7."""
    keywords: frozenset[str]


def _dialect(
    name: str, validator: Any, specification: referencing.Specification[Any], ref_hides_siblings: bool
) -> Dialect:
    keywords = frozenset(validator.VALIDATORS) - {"format"}
    if "if" in keywords:
        keywords |= {"then", "else"}
    if name in ("2019-09", "2020-12"):
        keywords |= {"minContains", "maxContains"}
    ours: dict[str, Any] = {
        "pattern": value_patterns.pattern,
        "patternProperties": value_patterns.pattern_properties,
        "additionalProperties": value_patterns.additional_properties,
        "uniqueItems": _unique_items,
    }
    for keyword in value_steps.IN_PLACE & validator.VALIDATORS.keys():
        ours[keyword] = value_steps.counting(validator.VALIDATORS[keyword])
    if "additionalItems" in keywords:
        ours["additionalItems"] = _beside_a_tuple(validator.VALIDATORS["additionalItems"])
    extend: Any = jsonschema.validators.extend
    validator = extend(validator, ours)
    return Dialect(name, validator, _tolerant(specification), ref_hides_siblings, keywords)


def _unique_items(
    validator: Any, wanted: Any, instance: Any, _schema: Any
) -> Iterable[jsonschema.ValidationError]:
    """`uniqueItems` by hashing; the library compares unordered items in pairs, minutes for thousands."""
    if wanted and validator.is_type(instance, "array") and len(set(map(json_key, instance))) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


def _beside_a_tuple(check: Any) -> Any:
    """`additionalItems` only beside a tuple, without which it has no meaning; the library would fail."""

    def checked(validator: Any, others: Any, instance: Any, schema: Any) -> Iterable[Any]:
        return (
            check(validator, others, instance, schema) or () if isinstance(schema.get("items"), list) else ()
        )

    return checked


def _tolerant(specification: referencing.Specification[Any]) -> referencing.Specification[Any]:
    """A specification that does not take the lists among `dependencies` for schemas, as the library's do."""

    def subresources_of(contents: Any) -> Iterable[Any]:
        if not isinstance(contents, dict):
            return
        dependencies = contents.get("dependencies")
        rest = {name: value for name, value in contents.items() if name != "dependencies"}
        yield from (each for each in specification.subresources_of(rest) if isinstance(each, (dict, bool)))
        if isinstance(dependencies, dict):
            yield from (each for each in dependencies.values() if isinstance(each, (dict, bool)))

    return referencing.Specification(  # type: ignore[call-arg]  # mypy does not see its attributes
        name=specification.name,
        id_of=specification.id_of,
        subresources_of=subresources_of,
        anchors_in=lambda _, contents: specification.anchors_in(contents),
        maybe_in_subresource=specification.maybe_in_subresource,
    )


DRAFT_4: Final = _dialect("4", jsonschema.Draft4Validator, referencing.jsonschema.DRAFT4, True)
DRAFT_6: Final = _dialect("6", jsonschema.Draft6Validator, referencing.jsonschema.DRAFT6, True)
DRAFT_7: Final = _dialect("7", jsonschema.Draft7Validator, referencing.jsonschema.DRAFT7, True)
DRAFT_2019_09: Final = _dialect(
    "2019-09", jsonschema.Draft201909Validator, referencing.jsonschema.DRAFT201909, False
)
DRAFT_2020_12: Final = _dialect(
    "2020-12", jsonschema.Draft202012Validator, referencing.jsonschema.DRAFT202012, False
)

_BY_URI: Final[Mapping[str, Dialect]] = {
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020_12,
}


def dialect_of(schema: object, default: Dialect = DRAFT_7) -> Dialect:
    """The draft that `$schema` names; `default` if it names none, or an unknown one."""
    if isinstance(schema, dict) and isinstance(named := schema.get("$schema"), str):
        uri = named.rstrip("#").removeprefix("https://").removeprefix("http://")
        return _BY_URI.get(uri, default)
    return default


def check_against_meta_schema(schema: Any, dialect: Dialect) -> None:
    """Raise InvalidSchema, with the place, if `schema` does not conform to its draft."""
    try:
        problem = best_match(_meta_validator(dialect).iter_errors(schema))
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    if problem is not None:
        raise InvalidSchema(f"{shortened(problem.message)} at '{problem.json_path}'")


@lru_cache(maxsize=8)
def _meta_validator(dialect: Dialect) -> Validator:
    # Making a validator resolves the meta-schema's references: as slow as checking a small schema.
    validator: Any = dialect.validator
    made: Validator = validator(_flat(validator.META_SCHEMA))
    return made


def _flat(meta_schema: dict[str, Any]) -> dict[str, Any]:
    """A meta-schema spread over vocabularies (since 2019-09) merged into one: four times as fast to check."""
    if "allOf" not in meta_schema:
        return meta_schema
    base = meta_schema["$id"]
    vocabularies = [SPECIFICATIONS.contents(urljoin(base, each["$ref"])) for each in meta_schema["allOf"]]
    flat: dict[str, Any] = {"type": meta_schema["type"], "properties": {}, "$defs": {}}
    for part in (*vocabularies, meta_schema):
        for keyword in ("properties", "$defs"):
            flat[keyword].update(_rooted(part.get(keyword, {})))
    return flat


def _rooted(part: Any) -> Any:
    """The part with its references to a vocabulary's root changed to the root of the merged meta-schema."""
    match part:
        case {"$dynamicRef": "#meta"} | {"$recursiveRef": "#"}:
            return {"$ref": "#"}
        case {"$ref": str(reference)} if reference.startswith("meta/"):
            return {**part, "$ref": reference[reference.index("#") :]}
        case dict():
            return {name: _rooted(value) for name, value in part.items()}
        case list():
            return [_rooted(value) for value in part]
    return part


def shortened(message: str) -> str:
    """A validator's message, which quotes the value, cut to a length that fits an answer."""
    if len(message) <= _MAX_MESSAGE_CHARACTERS:
        return message
    return message[:_MAX_MESSAGE_CHARACTERS] + "…"
