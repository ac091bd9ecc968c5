"""The OpenAPI 3.1 document of the registry's API, and the routes of the document and of its page."""

from __future__ import annotations

from typing import Any, Final

from starlette.routing import Route

from ottla.registry.openapi_keys import KEY_DESCRIPTIONS, KEY_SCHEMAS
from ottla.registry.openapi_schemas import SCHEMAS
from ottla.registry.routes.operation import CONSUMED, MEDIA_TYPE, PRODUCED
from ottla.web.openapi import JSON, Contents, Description, DocumentPages, Query, document_of

_TYPES: Final = tuple(sorted(CONSUMED))
PARAMETERS: Final = {
    "id": "The schema's id",
    "guid": "The schema's guid",
    "subject": "The subject; with a context as :.context:subject",
    "version": "The number of the version, or latest",
    "context": "The context",
    "namespace": "The namespace of the resource; - for all",
    "name": "The name of the resource; - for all",
    "resource_id": "The id of the resource",
    "kek": "The name of the key encryption key",
}
PHRASES: Final = {
    200: "OK",
    207: "The outcome of each request",
    204: "Done; there is nothing to tell",
    400: "The request is not as it should be",
    404: "There is no such subject, version, schema or key",
    406: "Not in the format that was asked for",
    409: "In conflict with earlier schemas or associations",
    413: "The request is too large",
    415: "The body is not of a type that this takes",
    422: "The body can be read but not done",
}


_RESOURCE: Final = "/associations/resources/{resource_id}"


def _flag(name: str, description: str) -> Query:
    return Query(name, description, "boolean")


_PAGE: Final = (
    Query("offset", "The first of the list to answer", "integer"),
    Query("limit", "The most to answer; all, if it is negative", "integer"),
)
_DELETED: Final = _flag("deleted", "Softly deleted ones too")
_DELETED_ONLY: Final = _flag("deletedOnly", "Softly deleted ones alone")
_NORMALIZE: Final = _flag("normalize", "Compare and keep the schema in its normal form")
_FORMAT: Final = Query(
    "format", "The text's format: resolved for Avro; serialized, ignore_extensions for Protobuf"
)
_REFERENCE_FORMAT: Final = Query("referenceFormat", "qualified: references with their contexts")
_TAGS: Final = Query("findTags", "Tell the records and fields that have one of these tags; *: any tag")
_SUBJECT: Final = Query("subject", "The subject, or context, of the id")
_TO_GLOBAL: Final = _flag("defaultToGlobal", "What holds for it where it has none of its own")
_ASSOCIATED: Final = (
    Query("resourceType", "The type of the resource: topic"),
    Query("associationType", "key or value; may be repeated", choices=("key", "value")),
    Query("lifecycle", "STRONG or WEAK alone", choices=("STRONG", "WEAK")),
)
_CONTEXT: Final = Query("context", "The context of subjects that are named without one")
_DRY: Final = _flag("dryRun", "Check the request alone")
_PERMANENT: Final = _flag("permanent", "For good, after it was deleted softly")


def _read(
    path: str, summary: str, answer: str, *query: Query, errors: tuple[int, ...] = (404,)
) -> Description:
    return Description("GET", path, summary, {200: answer}, None, query, (*errors, 406), PRODUCED)


def _sent(
    method: str,
    path: str,
    summary: str,
    body: str | None,
    answer: str,
    *query: Query,
    errors: tuple[int, ...] = (),
) -> Description:
    return Description(method, path, summary, {200: answer}, body, query, (*errors, 406), PRODUCED, _TYPES)


def _of_settings(
    word: str, name: str, *, query: tuple[Query, ...], put: tuple[Query, ...]
) -> list[Description]:
    gone = (_flag("recursive", "Those of all subjects of the context too"),) if word == "mode" else ()
    described: list[Description] = []
    for path, of in ((f"/{word}", "the registry"), (f"/{word}/{{subject}}", "a subject or context")):
        described += [
            _read(path, f"Get the {word} of {of}", name, *query),
            _sent("PUT", path, f"Set the {word} of {of}", name, name, *put),
            _sent("DELETE", path, f"Delete the {word} of {of}", None, name, *gone, errors=(404,)),
        ]
    return described


_ID: Final = "/schemas/ids/{id}"
_VERSIONS: Final = "/subjects/{subject}/versions"
_VERSION: Final = f"{_VERSIONS}/{{version}}"

DESCRIPTIONS: Final = (
    _read(
        "/subjects",
        "List subjects",
        "Names",
        Query("subjectPrefix", "Their beginning; :*: for all contexts"),
        _DELETED,
        _DELETED_ONLY,
        *_PAGE,
        errors=(),
    ),
    _sent(
        "POST",
        "/subjects/{subject}",
        "Look a schema up in a subject",
        "RegisterRequest",
        "Version",
        _NORMALIZE,
        _FORMAT,
        _DELETED,
        errors=(404,),
    ),
    _sent(
        "DELETE", "/subjects/{subject}", "Delete a subject", None, "Numbers", _PERMANENT, errors=(404, 422)
    ),
    _read(
        "/subjects/{subject}/metadata",
        "Get the newest version that has properties",
        "Version",
        Query("key", "The name of a property; may be repeated"),
        Query("value", "Its value"),
        _FORMAT,
        _DELETED,
    ),
    _read(
        _VERSIONS,
        "List the versions of a subject",
        "Numbers",
        _DELETED,
        _DELETED_ONLY,
        _flag("deletedAsNegative", "Softly deleted ones as negative numbers"),
        *_PAGE,
    ),
    _sent(
        "POST",
        _VERSIONS,
        "Register a schema",
        "RegisterRequest",
        "Registered",
        _NORMALIZE,
        _FORMAT,
        _flag("force", "Also if it is not compatible with earlier versions"),
        errors=(409, 413),
    ),
    _read(
        _VERSION, "Get a version", "Version", _FORMAT, _REFERENCE_FORMAT, _TAGS, _DELETED, errors=(404, 422)
    ),
    _sent("DELETE", _VERSION, "Delete a version", None, "Number", _PERMANENT, errors=(404, 422)),
    _read(
        f"{_VERSION}/schema",
        "Get the text of a version",
        "Text",
        _FORMAT,
        _REFERENCE_FORMAT,
        _DELETED,
        errors=(404, 422),
    ),
    _read(
        f"{_VERSION}/referencedby",
        "List the ids of schemas that refer to a version",
        "Numbers",
        _DELETED,
        *_PAGE,
        errors=(404, 422),
    ),
    _sent(
        "POST",
        f"{_VERSION}/tags",
        "Register a version again with other tags",
        "TagRequest",
        "Registered",
        errors=(404, 409, 413),
    ),
    _read(
        "/schemas",
        "List schemas",
        "Versions",
        Query("subjectPrefix", "How the subjects' names begin"),
        _flag("aliases", "With the aliases of subjects"),
        _DELETED,
        _flag("latestOnly", "The newest versions alone"),
        Query("ruleType", "Schemas that have a rule of this type"),
        *_PAGE,
        errors=(),
    ),
    _read("/schemas/types", "List the formats of schemas", "Names", errors=()),
    _read(
        _ID,
        "Get a schema by its id",
        "SchemaOfId",
        _SUBJECT,
        _FORMAT,
        _REFERENCE_FORMAT,
        _TAGS,
        _flag("fetchMaxId", "With the highest id"),
    ),
    _read(
        f"{_ID}/schema", "Get the text of a schema by its id", "Text", _SUBJECT, _FORMAT, _REFERENCE_FORMAT
    ),
    _read(f"{_ID}/subjects", "List the subjects that have a schema", "Names", _SUBJECT, _DELETED, *_PAGE),
    _read(
        f"{_ID}/versions",
        "List the versions that are a schema",
        "SubjectVersions",
        _SUBJECT,
        _DELETED,
        *_PAGE,
    ),
    _read("/schemas/guids/{guid}", "Get a schema by its guid", "SchemaOfId", _FORMAT),
    _read("/schemas/guids/{guid}/ids", "List the ids of a schema", "ContextIds"),
    _sent(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "Check a schema by the subject's level",
        "RegisterRequest",
        "Compatibility",
        _NORMALIZE,
        _flag("verbose", "With the reasons"),
        errors=(413,),
    ),
    _sent(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        "Check a schema against one version",
        "RegisterRequest",
        "Compatibility",
        _NORMALIZE,
        _flag("verbose", "With the reasons"),
        errors=(404, 413),
    ),
    *_of_settings("config", "Config", query=(_TO_GLOBAL,), put=()),
    *_of_settings(
        "mode", "Mode", query=(_TO_GLOBAL,), put=(_flag("force", "IMPORT also for a subject with versions"),)
    ),
    _read(
        "/contexts",
        "List contexts",
        "Names",
        Query("contextPrefix", "How the names begin"),
        *_PAGE,
        errors=(),
    ),
    Description(
        "DELETE",
        "/contexts/{context}",
        "Delete a context without subjects",
        {204: None},
        errors=(404, 406, 422),
        media_types=PRODUCED,
    ),
    _read(
        "/associations/subjects/{subject}",
        "List the associations of a subject",
        "Associations",
        *_ASSOCIATED,
        *_PAGE,
        errors=(422,),
    ),
    _read(
        "/associations/resources/{namespace}/{name}",
        "List the associations of resources by their name",
        "Associations",
        *_ASSOCIATED,
        *_PAGE,
        errors=(422,),
    ),
    _read(
        _RESOURCE, "List the associations of a resource", "Associations", *_ASSOCIATED, *_PAGE, errors=(422,)
    ),
    _sent(
        "POST",
        "/associations",
        "Associate a resource with subjects",
        "AssociationRequest",
        "Resource",
        _CONTEXT,
        _DRY,
        errors=(409, 413),
    ),
    _sent(
        "PUT",
        _RESOURCE,
        "Associate a resource with subjects, or change that",
        "AssociationRequest",
        "Resource",
        _CONTEXT,
        _DRY,
        errors=(409, 413),
    ),
    Description(
        "DELETE",
        _RESOURCE,
        "Forget the associations of a resource",
        {204: None},
        query=(*_ASSOCIATED[:2], _flag("cascadeLifecycle", "Strong ones and their subjects too"), _DRY),
        errors=(404, 406, 409, 422),
        media_types=PRODUCED,
    ),
    Description(
        "POST",
        "/associations:batchGet",
        "List the associations of several resources",
        {207: "BatchResults"},
        "BatchGetRequest",
        (_flag("includeSchemas", "With the newest schemas of subjects"),),
        (406, 413),
        PRODUCED,
        _TYPES,
    ),
    Description(
        "POST",
        "/associations:batchMutate",
        "Change the associations of several resources",
        {207: "BatchResults"},
        "BatchRequest",
        (_CONTEXT, _DRY),
        (406, 413),
        PRODUCED,
        _TYPES,
    ),
    *KEY_DESCRIPTIONS,
    _read("/", "Nothing: a health check", "Nothing", errors=()),
    _read("/v1/metadata/id", "Get the Kafka cluster and the registry's group", "ClusterId", errors=()),
    _read("/v1/metadata/version", "Get the version", "ServerVersion", errors=()),
    _read("/v1/metadata/state", "Get the state of this instance", "State", errors=()),
    Description("GET", "/openapi.json", "This document", {200: "Document"}),
    Description("GET", "/docs", "This document, to read", {200: "Page"}, media_types=("text/html",)),
)


def openapi_document() -> dict[str, Any]:
    """The document of the whole API."""
    return document_of(
        Contents(
            "ottla registry",
            "Schemas of records, by the API of Confluent's Schema Registry. Every path may have "
            "/contexts/{context} before it: its subjects are those of the context.",
            DESCRIPTIONS,
            {**SCHEMAS, **KEY_SCHEMAS},
            PARAMETERS,
            frozenset({"id"}),
            PHRASES,
            "What the registry or its cluster could not do",
            _chapter,
            (MEDIA_TYPE, JSON),
        )
    )


def document_routes() -> list[Route]:
    """The routes of the document and of its page."""
    pages = DocumentPages(openapi_document)
    return [Route("/openapi.json", pages.openapi), Route("/docs", pages.docs)]


def _chapter(path: str) -> str:
    """The chapter of a path."""
    root = path.split("/")[1]
    names = {
        "subjects": "Subjects",
        "schemas": "Schemas",
        "compatibility": "Compatibility",
        "config": "Configuration",
        "mode": "Modes",
        "contexts": "Contexts",
        "associations": "Associations",
        "associations:batchGet": "Associations",
        "associations:batchMutate": "Associations",
        "dek-registry": "Keys of encrypted fields",
    }
    return names.get(root, "The registry itself")
