"""Any request to consumer instances is answered with one of their codes, never with 500."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.rest.v2 import consumer_bodies
from ottla.web.errors import ApiError
from support.rest.rest_consumers import Proxy, use_fake_consumers

FIELDS = [
    "name",
    "id",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "fetch.min.bytes",
    "consumer.request.timeout.ms",
    "topics",
    "topic_pattern",
    "partitions",
    "offsets",
    "timestamps",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "metadata",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["t", "json", "avro", "earliest", "0", "-1", "2026-01-01T00:00:00Z", "^t", "(", "[a"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
BODIES = st.one_of(
    st.binary(max_size=30),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5).map(
        lambda found: json.dumps(found).encode()
    ),
    VALUES.map(lambda found: json.dumps(found).encode()),
)
PLACES = [
    "",
    "/subscription",
    "/assignments",
    "/positions",
    "/positions/beginning",
    "/positions/end",
    "/offsets",
    "/records",
]
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["GET", "POST", "DELETE", "PUT"]),
        st.sampled_from(["/consumers/g/instances/i", "/consumers/g/instances/other", "/consumers/g"])
        | st.text(max_size=6).map(lambda name: f"/consumers/{quote(name, safe='')}"),
        st.sampled_from(PLACES),
        BODIES,
        st.dictionaries(
            st.sampled_from(["timeout", "max_bytes"]),
            st.integers(-5, 20).map(str) | st.text(max_size=4),
            max_size=2,
        ),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS)
def test_no_request_is_answered_with_500(monkeypatch: pytest.MonkeyPatch, requests: list[Any]) -> None:
    async def story() -> None:
        use_fake_consumers(monkeypatch, {("t", 0): [b"1", b"?", b"2"], ("u", 0): [b"3"]})
        async with Proxy({"consumer.request.timeout.ms": "1"}) as proxy:
            path = await proxy.make(format="json")
            for method, base, place, body, query in requests:
                answer = await proxy.client.request(method, base + place, content=body, params=query)
                assert answer.status_code < 500, (method, base + place, body, answer.text)
                if answer.status_code >= 400:
                    assert answer.json()["error_code"] // 100 in (answer.status_code, 4, 400)
                    assert answer.json()["message"]
            # after any earlier requests, those of an existing instance are served
            assert (await proxy.client.get(f"{path}/subscription")).status_code in (200, 404)
            assert proxy.instances.room.taken_bytes == 0

    asyncio.run(asyncio.wait_for(story(), 60))


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_a_body_is_read_or_refused(value: Any) -> None:
    for read in (
        consumer_bodies.topics,
        consumer_bodies.topic_pattern,
        consumer_bodies.partitions,
        consumer_bodies.positions,
        consumer_bodies.times,
        consumer_bodies.commits,
    ):
        body = value if isinstance(value, dict) else dict.fromkeys(FIELDS, value)
        try:
            read(body)
        except ApiError as refused:
            assert refused.status == 422


@pytest.fixture(scope="module")
def offline() -> Iterator[Consumer]:
    """librdkafka's own consumer, which compiles patterns; there is no broker."""
    client = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    yield client
    client.close()


@settings(max_examples=200, deadline=None)
@given(pattern=st.text(st.sampled_from("ab(){}[]|*+?.^$\\,0123456789:"), max_size=60))
def test_a_pattern_that_is_taken_is_compiled_or_refused(offline: Consumer, pattern: str) -> None:
    try:
        taken = consumer_bodies.topic_pattern({"topic_pattern": pattern})
    except ApiError as refused:
        assert refused.status == 422
        return
    with contextlib.suppress(KafkaException):
        offline.subscribe([f"^({taken})$"])
