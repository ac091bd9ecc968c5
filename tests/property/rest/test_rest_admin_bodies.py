"""Any administrative request gets a clear answer: none is an internal error of the proxy."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.rest.app import ADMINISTRATION
from support.rest.fake_cluster_admin import CLUSTER_ID, FakeClusterAdmin, api_client

MODERATE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

OPERATIONS = [(one.description.method, one.description.path) for one in ADMINISTRATION]
WRITES = [(method, path) for method, path in OPERATIONS if method in ("POST", "PUT", "PATCH")]
FIELDS = [
    "topic_name",
    "partitions_count",
    "replication_factor",
    "replicas_assignments",
    "partition_id",
    "broker_ids",
    "configs",
    "validate_only",
    "name",
    "value",
    "operation",
    "data",
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "permission",
]
WORDS = st.sampled_from(
    ["SET", "DELETE", "TOPIC", "LITERAL", "READ", "ALLOW", "ANY", "1", "-1", "", "a" * 300]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | WORDS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=15,
)
NAMES = {
    "cluster_id": CLUSTER_ID,
    "broker_id": "1",
    "topic": "tasks",
    "topic_name": "tasks",
    "partition": "0",
    "partition_id": "0",
    "name": "retention.ms",
    "consumer_group_id": "readers",
    "consumer_id": "member-1",
}


def send(method: str, path: str, admin: FakeClusterAdmin | None = None, **options: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with api_client(admin or FakeClusterAdmin()) as client:
            return await client.request(method, path, **options)

    return asyncio.run(ask())


def is_told(answer: httpx.Response) -> bool:
    """Whether the request was done, or refused with the error shape and a code that fits the status."""
    if answer.is_success:
        return True
    error = answer.json()
    return (
        400 <= answer.status_code < 500
        and set(error) == {"error_code", "message"}
        and str(error["error_code"]).startswith(str(answer.status_code))
        and bool(error["message"])
    )


@MODERATE
@given(st.sampled_from(WRITES), VALUES)
def test_any_json_is_done_or_refused(operation: tuple[str, str], body: Any) -> None:
    method, path = operation
    content = json.dumps(body)  # the proxy has to refuse integers that do not fit

    answer = send(method, path.format(**NAMES), content=content, headers={"content-type": "application/json"})

    assert is_told(answer), (answer.status_code, answer.text)


@MODERATE
@given(st.sampled_from(WRITES), st.binary(max_size=200))
def test_any_bytes_are_refused(operation: tuple[str, str], body: bytes) -> None:
    method, path = operation

    answer = send(method, path.format(**NAMES), content=body, headers={"content-type": "application/json"})

    assert is_told(answer), (answer.status_code, answer.text)


@MODERATE
@given(
    st.sampled_from(OPERATIONS),
    st.dictionaries(st.sampled_from([*NAMES]), st.text(min_size=1, max_size=12) | WORDS, max_size=3),
    st.dictionaries(
        st.sampled_from([*FIELDS, "offset_type", "include_authorized_operations"]),
        st.text(max_size=8) | WORDS,
        max_size=4,
    ),
)
def test_any_names_in_the_path_and_any_query_are_answered(
    operation: tuple[str, str], names: dict[str, str], query: dict[str, str]
) -> None:
    method, path = operation
    escaped = {
        name: urllib.parse.quote(value.encode("utf-8", "surrogatepass"), safe="") or "-"
        for name, value in {**NAMES, **names}.items()
    }
    # a client removes these from the path by itself
    escaped = {name: value.replace(".", "%2E") for name, value in escaped.items()}
    texts = {name: value.encode("utf-8", "replace").decode() for name, value in query.items()}
    body = {"json": {}} if method in ("POST", "PUT", "PATCH") else {}

    answer = send(method, path.format(**escaped), params=texts, **body)

    assert is_told(answer), (answer.status_code, answer.text)


@MODERATE
@given(st.sampled_from(OPERATIONS), st.sampled_from([code for code in ErrorCode if code.value > 0]))
def test_any_refusal_of_the_cluster_is_told_with_its_code(
    operation: tuple[str, str], refusal: ErrorCode
) -> None:
    method, path = operation
    body = {"topic_name": "t"} if path.endswith("/topics") else {"data": []}

    answer = send(
        method,
        path.format(**NAMES),
        FakeClusterAdmin(refusal=refusal),
        **({"json": body} if method == "POST" else {}),
    )

    if answer.status_code == 500:
        assert answer.json()["error_code"] in (50002, 50003)
    else:
        assert is_told(answer), (answer.status_code, answer.text)


def test_numbers_that_do_not_fit_and_lists_that_are_too_long_are_refused() -> None:
    for body in (
        {"topic_name": "t", "partitions_count": 2**31},
        {"topic_name": "t", "replication_factor": 2**15},
        {"topic_name": "t", "replicas_assignments": {"99999999999": [1]}},
        {"topic_name": "t", "replicas_assignments": {"4294967296": [1]}},
        {"topic_name": "t", "replicas_assignments": [{"partition_id": 0, "broker_ids": [2**31]}]},
        {"topic_name": "t", "configs": [{"name": "n"}] * 10_001},
        {"topic_name": "t" * 40_000},
    ):
        answer = send("POST", f"/v3/clusters/{CLUSTER_ID}/topics", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (400, 400), body
    huge = send(
        "POST",
        f"/v3/clusters/{CLUSTER_ID}/topics",
        content=b" " * (2 << 20),
        headers={"content-type": "application/json"},
    )
    assert (huge.status_code, huge.json()["error_code"]) == (413, 413)
