"""The OpenAPI 3.1 document of both APIs, and the routes of the document and of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ottla import __version__
from ottla.rest.docs_page import docs_page
from ottla.rest.openapi_schemas import SCHEMAS, ref
from ottla.rest.operations import JSON, Description, Query
from ottla.web.application import json_answer

V2: Final = "application/vnd.kafka.v2+json"
EMBEDDED: Final = tuple(
    f"application/vnd.kafka.{name}.v2+json" for name in ("binary", "json", "avro", "jsonschema", "protobuf")
)
NUMBERS: Final = frozenset({"broker_id", "partition_id", "partition"})
PARAMETERS: Final = {
    "cluster_id": "The cluster",
    "broker_id": "The broker",
    "topic_name": "The topic",
    "topic": "The topic",
    "partition_id": "The partition",
    "partition": "The partition",
    "name": "The config",
    "consumer_group_id": "The consumer group",
    "consumer_id": "The consumer, by its member id",
    "group": "The consumer group",
    "instance": "The consumer instance",
}
PHRASES: Final = {
    200: "OK",
    201: "Created",
    204: "Done; there is nothing to tell",
    207: "What became of each record",
    400: "The request is not as it should be, or the cluster refuses it",
    404: "There is no such thing",
    406: "Not in the format that was asked for",
    408: "The Schema Registry did not answer in time",
    409: "Not in the state that this needs",
    413: "The request is too large",
    415: "The body is not of a type that this takes",
    422: "The body can be read but not done",
    429: "Too much at a time",
}
_INSTANCE: Final = "/consumers/{group}/instances/{instance}"
_RECORDS: Final = "/v3/clusters/{cluster_id}/topics/{topic}/records"


def _of_instance(
    method: str,
    path: str,
    summary: str,
    answer: str | None = None,
    body: str | None = None,
    errors: tuple[int, ...] = (404,),
) -> Description:
    answers = {204: None} if answer is None else {200: answer}
    return Description(method, f"{_INSTANCE}{path}", summary, answers, body, (), errors, (V2,), (V2,))


def _produce(path: str, summary: str) -> Description:
    return Description(
        "POST",
        path,
        summary,
        {200: "ProducedOffsets"},
        "Records",
        errors=(404, 408, 413, 429),
        media_types=(V2,),
        body_media_types=(V2, *EMBEDDED),
    )


PRODUCING: Final = (
    _produce("/topics/{topic}", "Produce records"),
    _produce("/topics/{topic}/partitions/{partition}", "Produce records to one partition"),
    Description(
        "POST",
        _RECORDS,
        "Produce records, streaming",
        {200: "ProduceResponse"},
        "ProduceRequest",
        errors=(404, 413, 429),
        note="The body is one record, or records one after the other; so is the answer, in their order.",
    ),
    Description(
        "POST",
        f"{_RECORDS}:batch",
        "Produce a batch of records",
        {207: "ProduceBatchResponse"},
        "ProduceBatchRequest",
        errors=(404, 413, 429),
    ),
)
CONSUMING: Final = (
    Description(
        "POST",
        "/consumers/{group}",
        "Create a consumer instance",
        {200: "Instance"},
        "CreateInstance",
        errors=(409, 429),
        media_types=(V2,),
        body_media_types=(V2,),
    ),
    _of_instance("DELETE", "", "Remove a consumer instance"),
    _of_instance("POST", "/subscription", "Subscribe to topics", body="SubscribeRequest", errors=(404, 409)),
    _of_instance("GET", "/subscription", "Get the subscription", "Subscription"),
    _of_instance("DELETE", "/subscription", "Unsubscribe"),
    _of_instance("POST", "/assignments", "Assign partitions", body="TopicPartitions", errors=(404, 409)),
    _of_instance("GET", "/assignments", "Get the assigned partitions", "TopicPartitions"),
    _of_instance("POST", "/positions", "Go on at offsets or times", body="Positions", errors=(404, 409)),
    _of_instance("POST", "/positions/beginning", "Go on at the first offsets", body="TopicPartitions"),
    _of_instance("POST", "/positions/end", "Go on at the ends", body="TopicPartitions"),
    _of_instance("POST", "/offsets", "Commit offsets; without a body, of all that was read", body="Commit"),
    _of_instance("GET", "/offsets", "Get committed offsets", "Committed", "TopicPartitions"),
    Description(
        "GET",
        f"{_INSTANCE}/records",
        "Read records",
        {200: "ConsumedRecords"},
        query=(
            Query("timeout", "The longest time to collect records, in ms", "integer"),
            Query("max_bytes", "The most to read, keys and values", "integer"),
        ),
        errors=(404, 406, 409),
        media_types=EMBEDDED,
        note="Ends with the time, at max_bytes, or with more than the instance's fetch.min.bytes.",
    ),
)
ITSELF: Final = (
    Description(
        "GET", "/", "Nothing; for a browser the page of this API", {200: "Nothing"}, media_types=(V2,)
    ),
    Description("GET", "/openapi.json", "This document", {200: "Document"}),
    Description("GET", "/docs", "This document, to read", {200: "Page"}, media_types=("text/html",)),
)
_OWN_SCHEMAS: Final = {"Document": {"type": "object"}, "Page": {"type": "string"}}


def openapi_document(descriptions: Iterable[Description]) -> dict[str, Any]:
    """The document of these operations and of those that are described in this module."""
    paths: dict[str, dict[str, Any]] = {}
    for description in sorted(
        (*descriptions, *PRODUCING, *CONSUMING, *ITSELF),
        key=lambda one: (not one.path.startswith("/v3"), one.path),
    ):
        item = paths.setdefault(description.path, {})
        item[description.method.lower()] = _operation(description)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ottla rest",
            "version": __version__,
            "description": "A Kafka cluster over HTTP, by the APIs v2 and v3 of Confluent's REST Proxy.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": {**SCHEMAS, **_OWN_SCHEMAS}},
    }


def document_routes(descriptions: Sequence[Description]) -> list[Route]:
    """The routes of the document and the page; both texts are made once, at the first request."""
    made: dict[str, bytes] = {}

    def once(name: str, make: Callable[[], bytes]) -> bytes:
        if name not in made:
            made[name] = make()
        return made[name]

    def document() -> bytes:
        return once("document", lambda: orjson.dumps(openapi_document(descriptions)))

    async def openapi(_request: Request) -> Response:
        return Response(document(), media_type=JSON)

    async def docs(_request: Request) -> Response:
        page = once("page", lambda: docs_page(openapi_document(descriptions)).encode())
        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        return HTMLResponse(page, headers={"content-security-policy": policy})

    async def root(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return await docs(request)
        return json_answer({}, media_type=V2)

    return [Route("/", root), Route("/openapi.json", openapi), Route("/docs", docs)]


def _operation(description: Description) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [_tag(description.path)],
        "summary": description.summary,
        "operationId": _operation_id(description),
    }
    if description.note:
        operation["description"] = description.note
    parameters = [*_path_parameters(description.path), *map(_query_parameter, description.query)]
    if parameters:
        operation["parameters"] = parameters
    errors = set(description.errors)
    if description.query:
        errors.add(400)
    if description.body is not None:
        errors |= {400, 415, 422}
        operation["requestBody"] = {"content": _content(description.body, description.body_media_types)}
    responses: dict[str, Any] = {}
    for status, answer in description.answers.items():
        responses[str(status)] = {"description": PHRASES[status]}
        if answer is not None:
            responses[str(status)]["content"] = _content(answer, description.media_types)
    for status in sorted(errors):
        responses[str(status)] = {"description": PHRASES[status], "content": _content("Error", (JSON,))}
    responses["default"] = {
        "description": "What the cluster or the proxy could not do",
        "content": _content("Error", (JSON,)),
    }
    operation["responses"] = responses
    return operation


def _content(schema: str, media_types: Iterable[str]) -> dict[str, Any]:
    return {media_type: {"schema": ref(schema)} for media_type in media_types}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMETERS[name],
            "schema": {"type": "integer", "minimum": 0} if name in NUMBERS else {"type": "string"},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameter(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.type}
    if query.choices:
        schema["enum"] = list(query.choices)
    return {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.description,
        "schema": schema,
    }


def _operation_id(description: Description) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", description.path.replace("/-", "/all")).strip("_")
    return f"{description.method.lower()}_{words or 'root'}"


def _tag(path: str) -> str:
    """The chapter of a path."""
    if not path.startswith("/v3"):
        if path.startswith("/consumers"):
            return "v2: consumer instances"
        return "v2: topics and brokers" if path.startswith(("/topics", "/brokers")) else "The API itself"
    for word, tag in (
        ("records", "v3: records"),
        ("configs", "v3: configs"),
        ("acls", "v3: access rules"),
        ("consumer-groups", "v3: consumer groups"),
        ("partition", "v3: partitions"),
        ("topics", "v3: topics"),
    ):
        if word in path:
            return tag
    return "v3: clusters and brokers"
