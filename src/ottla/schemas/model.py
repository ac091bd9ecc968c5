"""A schema of any format as the registry stores it: text, references, metadata and rules.

The JSON names are Confluent's. `as_json` leaves out absent fields; `from_json` ignores unknown fields, and
raises ValueError for a wrong value.
"""

from __future__ import annotations

import enum
import hashlib
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

MAX_VERSION: Final = 2**31 - 1
LATEST: Final = -1
"""The version that stands for the newest one, in requests and references."""


class SchemaType(enum.StrEnum):
    """The formats of schemas."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class CompatibilityLevel(enum.StrEnum):
    """Which versions of a subject a new one must be able to read, or be readable by."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class CompatibilityPolicy(enum.StrEnum):
    """How strictly JSON Schemas are compared (`compatibilityPolicy`)."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"
    LOGICAL = "LOGICAL"


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema of another subject, with the name by which this schema refers to it.

    Avro: a full name; JSON Schema: the URI of a `$ref`; Protobuf: the path of an `import`.
    """

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}

    @classmethod
    def from_json(cls, value: Any) -> Reference:
        found = _object(value, "a reference")
        name, subject = found.get("name"), found.get("subject")
        version = found.get("version", LATEST)
        if not isinstance(name, str) or not isinstance(subject, str):
            raise ValueError("a reference needs a name and a subject")
        if type(version) is not int or not (version == LATEST or 1 <= version <= MAX_VERSION):
            raise ValueError(f"the reference {name} can't have version {version}")
        return cls(name, subject, version)


@dataclass(frozen=True, slots=True)
class Metadata:
    """A schema's tags and properties. Kept in the order of their keys, as Confluent does."""

    tags: Mapping[str, tuple[str, ...]] | None = None
    properties: Mapping[str, str] | None = None
    sensitive: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.tags is not None:
            found["tags"] = {path: list(self.tags[path]) for path in sorted(self.tags)}
        if self.properties is not None:
            found["properties"] = {name: self.properties[name] for name in sorted(self.properties)}
        if self.sensitive is not None:
            found["sensitive"] = sorted(self.sensitive)
        return found

    @classmethod
    def from_json(cls, value: Any) -> Metadata:
        found = _object(value, "metadata")
        tags, sensitive = found.get("tags"), found.get("sensitive")
        return cls(
            None
            if tags is None
            else {path: _texts(names, "tags") for path, names in _object(tags, "tags").items()},
            _text_map(found.get("properties"), "properties"),
            None if sensitive is None else _texts(sensitive, "sensitive"),
        )

    def over(self, lower: Metadata | None) -> Metadata:
        """This metadata merged over `lower`: for equal paths of tags and equal properties, this one wins."""
        if lower is None:
            return self
        return Metadata(
            _laid_over(self.tags, lower.tags),
            _laid_over(self.properties, lower.properties),
            lower.sensitive if self.sensitive is None else tuple({*(lower.sensitive or ()), *self.sensitive}),
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that clients apply when they write or read; the registry stores it and checks its shape."""

    name: str
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: tuple[str, ...] | None = None
    params: Mapping[str, str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "doc": self.doc,
            "kind": self.kind,
            "mode": self.mode,
            "type": self.type,
            "tags": None if self.tags is None else sorted(self.tags),
            "params": None if self.params is None else dict(sorted(self.params.items())),
            "expr": self.expr,
            "onSuccess": self.on_success,
            "onFailure": self.on_failure,
            "disabled": self.disabled,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, value: Any) -> Rule:
        found = _object(value, "a rule")
        name, disabled = found.get("name"), found.get("disabled")
        if not isinstance(name, str):
            raise ValueError("a rule needs a name")
        if disabled is not None and not isinstance(disabled, bool):
            raise ValueError(f"disabled of the rule {name} is true or false")
        tags = found.get("tags")
        return cls(
            name,
            doc=_optional_text(found, "doc"),
            kind=_optional_text(found, "kind"),
            mode=_optional_text(found, "mode"),
            type=_optional_text(found, "type"),
            tags=None if tags is None else _texts(tags, "tags"),
            params=_text_map(found.get("params"), "params"),
            expr=_optional_text(found, "expr"),
            on_success=_optional_text(found, "onSuccess"),
            on_failure=_optional_text(found, "onFailure"),
            disabled=bool(disabled),
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema, by their purpose."""

    migration_rules: tuple[Rule, ...] | None = None
    domain_rules: tuple[Rule, ...] | None = None
    encoding_rules: tuple[Rule, ...] | None = None
    enable_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, rules in (
            ("migrationRules", self.migration_rules),
            ("domainRules", self.domain_rules),
            ("encodingRules", self.encoding_rules),
        ):
            if rules is not None:
                found[name] = [rule.as_json() for rule in rules]
        if self.enable_at is not None:
            found["enableAt"] = self.enable_at
        return found

    @classmethod
    def from_json(cls, value: Any) -> RuleSet:
        found = _object(value, "a rule set")
        return cls(
            _rules(found.get("migrationRules"), "migrationRules"),
            _rules(found.get("domainRules"), "domainRules"),
            _rules(found.get("encodingRules"), "encodingRules"),
            enable_at=_optional_text(found, "enableAt"),
        )

    def hashed(self) -> list[list[Any]]:
        """The rule set's part of a digest: the fields of its rules, without the fields' names."""
        rules = (*(self.migration_rules or ()), *(self.domain_rules or ()), *(self.encoding_rules or ()))
        return [list(rule.as_json().values()) for rule in rules]

    def over(self, lower: RuleSet | None) -> RuleSet:
        """This rule set merged over `lower`: of rules of the same name and purpose, this one's wins."""
        if lower is None:
            return self
        return RuleSet(
            _rules_over(self.migration_rules, lower.migration_rules),
            _rules_over(self.domain_rules, lower.domain_rules),
            _rules_over(self.encoding_rules, lower.encoding_rules),
            lower.enable_at if self.enable_at is None else self.enable_at,
        )

    def without(self, names: Collection[str]) -> RuleSet:
        """The same without the rules of these names."""

        def others(rules: tuple[Rule, ...] | None) -> tuple[Rule, ...] | None:
            return tuple(rule for rule in rules or () if rule.name not in names) or None

        return RuleSet(
            others(self.migration_rules),
            others(self.domain_rules),
            others(self.encoding_rules),
            self.enable_at,
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. `text` is canonical once it is stored; equal schemas of one context share an id."""

    schema_type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    def digest(self) -> bytes:
        """The MD5 of all fields that identify a schema; its `guid` has the same 16 bytes."""
        found = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for reference in self.references:
            found.update(reference.name.encode())
            found.update(reference.subject.encode())
            found.update(reference.version.to_bytes(4, "big", signed=True))
        if self.metadata is not None:
            found.update(b"\1")
            found.update(_hashed(list(self.metadata.as_json().values())))
        if self.rule_set is not None:
            found.update(b"\1")
            found.update(_hashed(self.rule_set.hashed()))
        return found.digest()

    @property
    def guid(self) -> str:
        """The digest as a UUID: an id that is the same in every registry."""
        return str(uuid.UUID(bytes=self.digest()))

    def as_json(self) -> dict[str, Any]:
        """`schemaType`, `references`, `metadata`, `ruleSet` and `schema`, as in answers and records."""
        found: dict[str, Any] = {"schemaType": self.schema_type.value}
        if self.references:
            found["references"] = [reference.as_json() for reference in self.references]
        if self.metadata is not None:
            found["metadata"] = self.metadata.as_json()
        if self.rule_set is not None:
            found["ruleSet"] = self.rule_set.as_json()
        found["schema"] = self.text
        return found

    @classmethod
    def from_json(cls, value: Any) -> Schema:
        """The schema of the fields that `as_json` writes; without `schemaType` it is Avro."""
        found = _object(value, "a schema")
        text, references = found.get("schema"), found.get("references")
        if not isinstance(text, str):
            raise ValueError("schema must be a text")
        schema_type = found.get("schemaType")
        if schema_type is None:
            schema_type = SchemaType.AVRO
        elif not isinstance(schema_type, str) or schema_type not in SchemaType.__members__:
            raise ValueError(f"Invalid schema type {str(schema_type)[:100]}")
        if references is not None and not isinstance(references, list):
            raise ValueError("references must be an array")
        metadata, rule_set = found.get("metadata"), found.get("ruleSet")
        return cls(
            SchemaType(schema_type),
            text,
            tuple(Reference.from_json(reference) for reference in references or ()),
            None if metadata is None else Metadata.from_json(metadata),
            None if rule_set is None else RuleSet.from_json(rule_set),
        )


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return value


def _optional_text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be a text")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name} must be an array of texts")
    return tuple(dict.fromkeys(value))


def _text_map(value: Any, name: str) -> dict[str, str] | None:
    """A map of texts; numbers and booleans are turned into texts, as in Confluent's registry."""
    if value is None:
        return None
    found: dict[str, str] = {}
    for key, one in _object(value, name).items():
        match one:
            case str():
                found[key] = one
            case bool():
                found[key] = "true" if one else "false"
            case int() | float():
                found[key] = str(one)
            case _:
                raise ValueError(f"{name}: {key} must be a text")
    return found


def _rules(value: Any, name: str) -> tuple[Rule, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"{name} must be an array")
    return tuple(Rule.from_json(rule) for rule in value)


def _laid_over(upper: Mapping[str, _T] | None, lower: Mapping[str, _T] | None) -> Mapping[str, _T] | None:
    if upper is None or lower is None:
        return lower if upper is None else upper
    return {**lower, **upper}


def _rules_over(upper: tuple[Rule, ...] | None, lower: tuple[Rule, ...] | None) -> tuple[Rule, ...] | None:
    if upper is None or lower is None:
        return lower if upper is None else upper
    names = {rule.name for rule in upper}
    return (*(rule for rule in lower if rule.name not in names), *upper)


def _hashed(value: Any) -> bytes:
    """The bytes of metadata or rules for a digest: all texts, in the order of `as_json`."""
    match value:
        case bool():
            return b"\1" if value else b"\0"
        case str():
            return value.encode()
        case dict():
            return b"".join(_hashed(name) + _hashed(one) for name, one in value.items())
        case _:
            return b"".join(map(_hashed, value))
