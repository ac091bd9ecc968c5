"""Whatever comes to the registry's REST API, it answers: never with a fault of its own, always in JSON."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.app import operations_of, registry_application
from ottla.registry.routes.operation import CONSUMED, PRODUCED
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp, refused

OPERATIONS = [(operation.method, operation.path) for operation in operations_of(InMemoryRegistry())]
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
FIELDS = (
    *("schema", "schemaType", "references", "metadata", "ruleSet", "version", "id", "schemaTagsToAdd"),
    *("compatibility", "compatibilityLevel", "compatibilityPolicy", "alias", "normalize", "defaultMetadata"),
    *("overrideRuleSet", "mode", "name", "subject", "tags", "properties", "domainRules", "params", "other"),
)
PARAMETERS = (
    *("normalize", "deleted", "deletedOnly", "permanent", "verbose", "format", "referenceFormat", "force"),
    *(
        "subject",
        "subjectPrefix",
        "contextPrefix",
        "offset",
        "limit",
        "key",
        "value",
        "ruleType",
        "latestOnly",
    ),
    *("fetchMaxId", "defaultToGlobal", "recursive", "aliases"),
)

words = st.sampled_from(
    ["s", "r", "latest", "-1", "0", "1", "2147483648", "true", ":.c:", ":.c:s", ":*:", "."]
)
texts = words | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
known = st.sampled_from(
    [
        RECORD,
        '"int"',
        "{}",
        "[",
        "AVRO",
        "JSON",
        "PROTOBUF",
        'syntax = "proto3"; message M {}',
        "FULL",
        "IMPORT",
    ]
)
values = st.recursive(
    scalars | known,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
references = st.lists(
    st.fixed_dictionaries({"name": texts, "subject": texts, "version": st.integers(-2, 3)}), max_size=2
)
schemas = st.fixed_dictionaries(
    {"schema": known | texts},
    optional={
        "schemaType": st.sampled_from(["AVRO", "JSON", "PROTOBUF"]) | texts,
        "references": references | values,
        "metadata": values,
        "ruleSet": st.fixed_dictionaries({"domainRules": values}) | values,
        "version": scalars,
        "id": scalars,
    },
)
bodies = (
    schemas.map(json.dumps).map(str.encode)
    | values.map(json.dumps).map(str.encode)
    | st.dictionaries(st.sampled_from(FIELDS), values, max_size=4).map(json.dumps).map(str.encode)
    | st.binary(max_size=30)
    | st.integers(1, 5_000).map(lambda depth: b"[" * depth)
)
raw_paths = st.text("/%20:.~aé\x00?&", max_size=12).map(lambda text: "/" + text)


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, str]:
    method, template = draw(st.sampled_from(OPERATIONS))
    parts = [
        quote(draw(texts), safe="") if part.startswith("{") else part
        for part in template.strip("/").split("/")
    ]
    path = "/" + "/".join(parts)
    if draw(st.integers(0, 3)) == 0:
        path = f"/contexts/{quote(draw(texts), safe='')}{path}"
    query = draw(st.lists(st.tuples(st.sampled_from(PARAMETERS), texts), max_size=3))
    return method, f"{path}?{urlencode(query)}" if query else path


def registry() -> RegistryHttp:
    """One that knows a subject, `s`, and another that refers to it, `r`."""
    http = RegistryHttp(registry_application(InMemoryRegistry()))
    http.post("/subjects/s/versions", {"schema": RECORD})
    reference = {"name": "R", "subject": "s", "version": 1}
    http.post("/subjects/r/versions", {"schema": '{"type":"array","items":"R"}', "references": [reference]})
    return http


def is_proper(answer: httpx.Response) -> None:
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        refused(answer)


@settings(max_examples=400, deadline=None)
@given(paths(), bodies)
def test_every_operation_answers_every_body(operation: tuple[str, str], body: bytes) -> None:
    method, path = operation
    is_proper(registry().ask(method, path, content=None if method in ("GET", "DELETE") else body))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(paths(), bodies), min_size=2, max_size=6))
def test_earlier_requests_of_any_kind_leave_it_answering(
    requests: list[tuple[tuple[str, str], bytes]],
) -> None:
    http = registry()
    for (method, path), body in requests:
        is_proper(http.ask(method, path, content=None if method in ("GET", "DELETE") else body))
    is_proper(http.ask("GET", "/schemas"))
    is_proper(http.ask("GET", "/subjects?deleted=true"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]), raw_paths)
def test_an_unknown_path_is_told_so(method: str, path: str) -> None:
    is_proper(registry().ask(method, path))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from([*PRODUCED, "*/*", "application/*", "text/html", "q=0", ";q=x", "é", ""]), max_size=3
    ),
    st.sampled_from([*CONSUMED, "text/plain", "application/json; charset=utf-8", "", "//"]),
)
def test_headers_never_break_it(accepted: list[str], named: str) -> None:
    headers: dict[str, Any] = {"accept": ", ".join(accepted).encode(), "content-type": named}
    answer = registry().ask(
        "POST", "/subjects/s", content=json.dumps({"schema": RECORD}).encode(), headers=headers
    )
    assert answer.status_code in (200, 406, 415)
    is_proper(answer)
