"""The schemas of the registry's OpenAPI document: bodies of requests, and answers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from ottla.registry.core.associations import AssociationType
from ottla.registry.core.configuration import Config, json_name
from ottla.registry.core.records import Lifecycle, Mode
from ottla.schemas.model import CompatibilityLevel, CompatibilityPolicy, SchemaType
from ottla.web.openapi import ref

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
_TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
_TEXT_MAP: Final[Schema] = {"type": "object", "additionalProperties": TEXT}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(fields: Mapping[str, Schema], *optional: str) -> Schema:
    required = [name for name in fields if name not in optional and "*" not in optional]
    schema: Schema = {"type": "object", "properties": dict(fields)}
    return {**schema, "required": required} if required else schema


def _words(words: type[enum.StrEnum]) -> Schema:
    return {"type": "string", "enum": [str(word) for word in words]}


_SCHEMA_FIELDS: Final[Mapping[str, Schema]] = {
    "schemaType": _words(SchemaType),
    "references": _list(ref("Reference")),
    "metadata": ref("Metadata"),
    "ruleSet": ref("RuleSet"),
    "schema": TEXT,
}
_OPTIONAL: Final = ("references", "metadata", "ruleSet", "schemaTags", "maxId")
_ANSWERED: Final[Mapping[str, Schema]] = {
    "guid": TEXT,
    **_SCHEMA_FIELDS,
    "ts": NUMBER,
    "deleted": FLAG,
    "schemaTags": _list(ref("EntityTags")),
}
_NAMED: Final[Mapping[str, Schema]] = {"subject": TEXT, "version": NUMBER, "id": NUMBER}
_RULE: Final[Mapping[str, Schema]] = {
    **dict.fromkeys(("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure"), TEXT),
    "tags": _TEXTS,
    "params": _TEXT_MAP,
    "disabled": FLAG,
}


_KINDS: Final = _words(AssociationType)
_LIFECYCLES: Final = _words(Lifecycle)
_RESOURCE: Final = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
_ASSOCIATION: Final[Mapping[str, Schema]] = {
    "subject": TEXT,
    "guid": TEXT,
    **dict.fromkeys(_RESOURCE, TEXT),
    "associationType": _KINDS,
    "lifecycle": _LIFECYCLES,
    "frozen": FLAG,
    "createTs": NUMBER,
    "updateTs": NUMBER,
}
_WANTED: Final[Mapping[str, Schema]] = {
    "subject": TEXT,
    "associationType": _KINDS,
    "lifecycle": _LIFECYCLES,
    "frozen": FLAG,
    "schema": ref("RegisterRequest"),
    "normalize": FLAG,
}


def _config_fields() -> dict[str, Schema]:
    texts = ("alias", "aliasForDeks", "compatibilityGroup")
    fields: dict[str, Schema] = {json_name(name): FLAG for name in Config.__slots__}
    fields |= dict.fromkeys(texts, TEXT)
    fields |= {name: ref("Metadata") for name in ("defaultMetadata", "overrideMetadata")}
    fields |= {name: ref("RuleSet") for name in ("defaultRuleSet", "overrideRuleSet")}
    level = _words(CompatibilityLevel)
    policy = _words(CompatibilityPolicy)
    return {**fields, "compatibilityLevel": level, "compatibility": level, "compatibilityPolicy": policy}


SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": _object({"error_code": NUMBER, "message": TEXT}),
    "Nothing": {"type": "object"},
    "Document": {"type": "object"},
    "Page": TEXT,
    "Text": {"description": "A schema's text"},
    "Names": _TEXTS,
    "Numbers": _list(NUMBER),
    "Number": NUMBER,
    "Reference": _object({"name": TEXT, "subject": TEXT, "version": NUMBER}, "version"),
    "Metadata": _object(
        {
            "tags": {"type": "object", "additionalProperties": _TEXTS},
            "properties": _TEXT_MAP,
            "sensitive": _TEXTS,
        },
        "*",
    ),
    "Rule": _object(_RULE, *(name for name in _RULE if name != "name")),
    "RuleSet": _object(
        {
            "migrationRules": _list(ref("Rule")),
            "domainRules": _list(ref("Rule")),
            "encodingRules": _list(ref("Rule")),
            "enableAt": TEXT,
        },
        "*",
    ),
    "EntityTags": _object(
        {
            "schemaEntity": _object(
                {"entityPath": TEXT, "entityType": {"type": "string", "enum": ["sr_record", "sr_field"]}}
            ),
            "tags": _TEXTS,
        }
    ),
    "RegisterRequest": _object(
        {
            **_SCHEMA_FIELDS,
            "version": NUMBER,
            "id": NUMBER,
            "schemaTagsToAdd": _list(ref("EntityTags")),
            "schemaTagsToRemove": _list(ref("EntityTags")),
            "propagateSchemaTags": FLAG,
        },
        "*",
    ),
    "TagRequest": _object(
        {
            "newVersion": NUMBER,
            "tagsToAdd": _list(ref("EntityTags")),
            "tagsToRemove": _list(ref("EntityTags")),
            "metadata": ref("Metadata"),
            "ruleSet": ref("RuleSet"),
            "rulesToMerge": ref("RuleSet"),
            "rulesToRemove": _TEXTS,
        },
        "*",
    ),
    "Registered": _object({"id": NUMBER, "version": NUMBER, "guid": TEXT, **_SCHEMA_FIELDS}, *_OPTIONAL),
    "Version": _object({**_NAMED, **_ANSWERED, "aliases": _TEXTS}, *_OPTIONAL, "aliases"),
    "Versions": _list(ref("Version")),
    "SchemaOfId": _object({**_NAMED, **_ANSWERED, "maxId": NUMBER}, *_OPTIONAL, *_NAMED),
    "SubjectVersions": _list(_object({"subject": TEXT, "version": NUMBER})),
    "ContextIds": _list(_object({"context": TEXT, "id": NUMBER})),
    "Compatibility": _object({"is_compatible": FLAG, "messages": _TEXTS}, "messages"),
    "Config": _object(_config_fields(), "*"),
    "Mode": _object({"mode": _words(Mode)}),
    "Association": _object(_ASSOCIATION),
    "Associations": _list(ref("Association")),
    "WantedAssociation": _object(_WANTED, "*"),
    "AssociationRequest": _object(
        {**dict.fromkeys(_RESOURCE, TEXT), "associations": _list(ref("WantedAssociation"))},
        "resourceId",
        "resourceType",
    ),
    "Resource": _object(
        {**dict.fromkeys(_RESOURCE, TEXT), "associations": _list(ref("AssociationOfResource"))}, *_RESOURCE
    ),
    "AssociationOfResource": _object(
        {
            "subject": TEXT,
            "associationType": _KINDS,
            "lifecycle": _LIFECYCLES,
            "frozen": FLAG,
            "schema": ref("Version"),
        },
        "schema",
    ),
    "BatchGetRequest": _object(
        {
            "requests": _list(
                _object(
                    {**dict.fromkeys(_RESOURCE, TEXT), "associationTypes": _TEXTS, "lifecycle": _LIFECYCLES},
                    "*",
                )
            )
        }
    ),
    "BatchRequest": _object(
        {
            "requests": _list(
                _object(
                    {**dict.fromkeys(_RESOURCE, TEXT), "associations": _list(ref("AssociationOperation"))},
                    "resourceType",
                )
            )
        }
    ),
    "AssociationOperation": _object(
        {
            "opType": {"type": "string", "enum": ["CREATE", "UPSERT", "DELETE"]},
            **_WANTED,
            "cascadeLifecycle": FLAG,
        },
        *_WANTED,
        "cascadeLifecycle",
    ),
    "BatchResults": _object(
        {"results": _list(_object({"result": ref("Resource"), "error": ref("Error")}, "*"))}
    ),
    "ClusterId": _object({"scope": _object({"path": _TEXTS, "clusters": _TEXT_MAP}), "id": TEXT}),
    "ServerVersion": _object({"version": TEXT, "commitId": TEXT}),
    "State": _object(
        {
            "state": {"type": "string", "enum": ["READY", "READ_ONLY"]},
            "problem": {"type": ["string", "null"]},
            "primary": {"type": ["string", "null"]},
            "topic": TEXT,
            "topic_id": TEXT,
            "offset": NUMBER,
        }
    ),
}
