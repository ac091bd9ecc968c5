"""The OpenAPI 3.1 document of both APIs, and the routes of the document and of its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ottla.rest.openapi_schemas import SCHEMAS
from ottla.rest.operations import Description, Query
from ottla.web.application import json_answer
from ottla.web.media_types import negotiate
from ottla.web.openapi import Contents, DocumentPages, document_of

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
            Query("include", "Fields of records beside the usual ones: timestamp, headers"),
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
    described = sorted(
        (*descriptions, *PRODUCING, *CONSUMING, *ITSELF),
        key=lambda one: (not one.path.startswith("/v3"), one.path),
    )
    return document_of(
        Contents(
            "ottla rest",
            "A Kafka cluster over HTTP, by the APIs v2 and v3 of Confluent's REST Proxy.",
            described,
            {**SCHEMAS, **_OWN_SCHEMAS},
            PARAMETERS,
            NUMBERS,
            PHRASES,
            "What the cluster or the proxy could not do",
            _tag,
        )
    )


def document_routes(descriptions: Sequence[Description]) -> list[Route]:
    """The routes of the document and the page; both texts are made once, at the first request."""
    pages = DocumentPages(lambda: openapi_document(descriptions))

    async def root(request: Request) -> Response:
        types = (V2, "application/json", "text/html")
        if negotiate(request.headers.get("accept", ""), types) == "text/html":
            return await pages.docs(request)
        return json_answer({}, media_type=V2)

    return [Route("/", root), Route("/openapi.json", pages.openapi), Route("/docs", pages.docs)]


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
