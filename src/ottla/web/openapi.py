"""OpenAPI 3.1 documents of services: operations described as data, the document of them, and its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ottla import __version__
from ottla.web.docs_page import docs_page

JSON: Final = "application/json"
_PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter behind the question mark. `type` is JSON Schema's."""

    name: str
    description: str
    type: str = "string"
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """One method of one path, as the document describes it.

    body: the name of the request's schema in the document. answers: by status the name of the answer's
    schema, or None for an empty answer. errors: the statuses beside those that any request may get. note:
    further remarks.
    """

    method: str
    path: str
    summary: str
    answers: Mapping[int, str | None]
    body: str | None = None
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    body_media_types: tuple[str, ...] = (JSON,)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Contents:
    """A document's parts.

    descriptions: in their order in the document. schemas: bodies and answers by their names; one is `Error`.
    parameters: the path's, with what they name; `numbers` are those that are numbers. phrases: the meaning of
    each status. failure: the meaning of any other. chapter: the chapter of a path.
    """

    title: str
    description: str
    descriptions: Sequence[Description]
    schemas: Mapping[str, Any]
    parameters: Mapping[str, str]
    numbers: Collection[str]
    phrases: Mapping[int, str]
    failure: str
    chapter: Callable[[str], str]
    error_media_types: tuple[str, ...] = (JSON,)


def ref(name: str) -> dict[str, Any]:
    """The schema of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def document_of(contents: Contents) -> dict[str, Any]:
    """The document, as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for description in contents.descriptions:
        item = paths.setdefault(description.path, {})
        item[description.method.lower()] = _operation(contents, description)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": contents.title,
            "version": __version__,
            "description": contents.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": dict(contents.schemas)},
    }


class DocumentPages:
    """The handlers of the document and of its page; both texts are made once, at the first request."""

    def __init__(self, document: Callable[[], Mapping[str, Any]]) -> None:
        self._document = document
        self._made: dict[str, bytes] = {}

    async def openapi(self, _request: Request) -> Response:
        """Answer with the document."""
        return Response(self._once("document", lambda: orjson.dumps(self._document())), media_type=JSON)

    async def docs(self, _request: Request) -> Response:
        """Answer with the page."""
        page = self._once("page", lambda: docs_page(self._document()).encode())
        return HTMLResponse(page, headers={"content-security-policy": _PAGE_POLICY})

    def _once(self, name: str, make: Callable[[], bytes]) -> bytes:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]


def _operation(contents: Contents, description: Description) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [contents.chapter(description.path)],
        "summary": description.summary,
        "operationId": _operation_id(description),
    }
    if description.note:
        operation["description"] = description.note
    parameters = [*_path_parameters(contents, description.path), *map(_query_parameter, description.query)]
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
        responses[str(status)] = {"description": contents.phrases[status]}
        if answer is not None:
            responses[str(status)]["content"] = _content(answer, description.media_types)
    error = _content("Error", contents.error_media_types)
    for status in sorted(errors):
        responses[str(status)] = {"description": contents.phrases[status], "content": error}
    responses["default"] = {"description": contents.failure, "content": error}
    operation["responses"] = responses
    return operation


def _content(schema: str, media_types: Iterable[str]) -> dict[str, Any]:
    return {media_type: {"schema": ref(schema)} for media_type in media_types}


def _path_parameters(contents: Contents, path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": contents.parameters[name],
            "schema": {"type": "integer", "minimum": 0} if name in contents.numbers else {"type": "string"},
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
