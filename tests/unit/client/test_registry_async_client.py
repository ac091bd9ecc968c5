"""The Schema Registry's client on an event loop: what it asks for, keeps, and says when it can't."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx
import orjson
import pytest

from ottla.client.registry import lookups
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.schemas.model import SchemaType
from support.rest.fake_producing import FakeRegistry

USER = orjson.dumps(
    {"type": "record", "name": "User", "namespace": "n", "fields": [{"name": "id", "type": "long"}]}
).decode()
ORDER = '{"type":"record","name":"Order","namespace":"n","fields":[{"name":"by","type":"n.User"}]}'


def run(
    registry: FakeRegistry,
    story: Callable[[RegistryClient], Awaitable[None]],
    urls: str = "http://a",
    clock: Callable[[], float] = time.monotonic,
) -> None:
    async def told() -> None:
        client = registry.client(urls, clock)
        try:
            await story(client)
        finally:
            await client.close()

    asyncio.run(told())


def test_a_schema_is_asked_for_once_by_its_id() -> None:
    registry = FakeRegistry({1: ("users-value", 1, "AVRO", USER)})

    async def story(client: RegistryClient) -> None:
        first, second = await client.by_id(1), await client.by_id(1)
        assert first.parsed is second.parsed
        assert (first.id, first.parsed.name, first.subject) == (1, "n.User", None)

    run(registry, story)
    assert registry.asked == ["GET http://a/schemas/ids/1"]


def test_those_who_ask_at_the_same_time_share_an_answer() -> None:
    registry = FakeRegistry({1: ("users-value", 1, "AVRO", USER)})

    async def story(client: RegistryClient) -> None:
        await asyncio.gather(*(client.by_id(1) for _ in range(100)))

    run(registry, story)
    assert len(registry.asked) == 1


def test_the_latest_version_is_asked_for_again_after_a_while() -> None:
    now = [0.0]
    registry = FakeRegistry({1: ("s", 1, "AVRO", '"int"')})

    async def story(client: RegistryClient) -> None:
        assert (await client.latest("s")).version == 1
        registry.schemas[2] = ("s", 2, "AVRO", '"long"')
        assert (await client.latest("s")).version == 1
        now[0] += lookups.LATEST_SECONDS + 1
        assert (await client.latest("s")).version == 2
        assert (await client.version("s", 1)).id == 1

    run(registry, story, clock=lambda: now[0])


def test_a_schema_with_references_is_read_with_all_that_it_refers_to() -> None:
    registry = FakeRegistry({1: ("users", 3, "AVRO", USER), 2: ("orders", 1, "AVRO", ORDER)})
    registry.references[2] = [{"name": "n.User", "subject": "users", "version": 3}]

    async def story(client: RegistryClient) -> None:
        assert '"name":"id"' in (await client.by_id(2)).parsed.formatted("resolved")

    run(registry, story)


def test_one_schema_under_two_names_is_there_under_both() -> None:
    both = '{"properties":{"a":{"$ref":"left.json"},"b":{"$ref":"right.json"}}}'
    registry = FakeRegistry({1: ("texts", 1, "JSON", '{"type":"string"}'), 2: ("both", 1, "JSON", both)})
    registry.references[2] = [
        {"name": name, "subject": "texts", "version": 1} for name in ("left.json", "right.json")
    ]

    async def story(client: RegistryClient) -> None:
        assert (await client.by_id(2)).parsed.canonical_text == both

    run(registry, story)


def test_a_schema_that_refers_to_itself_ends_as_a_refusal() -> None:
    registry = FakeRegistry({2: ("orders", 1, "AVRO", ORDER)})
    registry.references[2] = [{"name": "n.User", "subject": "orders", "version": 1}]

    async def story(client: RegistryClient) -> None:
        with pytest.raises(RegistryRefusal):
            await client.by_id(2)

    run(registry, story)


def test_a_schema_is_registered_once_and_told_with_its_version() -> None:
    registry = FakeRegistry()

    async def story(client: RegistryClient) -> None:
        first = await client.register("a/b", SchemaType.AVRO, '"int"')
        assert (first.id, first.version, first.subject) == (1, 1, "a/b")
        await client.register("a/b", SchemaType.AVRO, '"int"')
        assert (await client.by_id(1)).parsed is first.parsed

    run(registry, story)
    assert registry.asked == ["POST http://a/subjects/a%2Fb/versions", "POST http://a/subjects/a%2Fb"]


def test_an_instance_that_is_down_is_passed_by_and_asked_last_from_then_on() -> None:
    registry = FakeRegistry({1: ("s", 1, "AVRO", '"int"'), 2: ("s", 2, "AVRO", '"long"')})

    def answer(request: httpx.Request) -> httpx.Response | None:
        if request.url.host == "down":
            raise httpx.ConnectError("refused")
        return httpx.Response(500, json={}) if request.url.host == "ill" else None

    registry.answer = answer

    async def story(client: RegistryClient) -> None:
        await client.by_id(1)
        await client.by_id(2)

    run(registry, story, "http://down, http://ill/,http://well")
    assert [asked.split("/")[2] for asked in registry.asked] == ["down", "ill", "well", "well"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"}), (404, 40403)),
        (httpx.Response(503, text="down"), (503, 503)),
        (httpx.Response(200, json={"schema": "{", "schemaType": "AVRO"}), (422, 42201)),
        (httpx.Response(200, json={"schema": '"int"', "schemaType": "XML"}), (422, 42201)),
    ],
)
def test_what_the_registry_refuses_is_told_as_it_says(
    answer: httpx.Response, expected: tuple[int, int]
) -> None:
    registry = FakeRegistry(answer=lambda _request: answer)

    async def story(client: RegistryClient) -> None:
        with pytest.raises(RegistryRefusal) as refusal:
            await client.by_id(1)
        assert (refusal.value.status, refusal.value.error_code) == expected

    run(registry, story)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"nonsense",
        b'{"schema":5}',
        b'{"schema":"\\"int\\"","references":[{}]}',
        b" " * (17 << 20),
    ],
)
def test_an_answer_that_is_none_counts_as_no_answer(content: bytes) -> None:
    registry = FakeRegistry(answer=lambda _request: httpx.Response(200, content=content))

    async def story(client: RegistryClient) -> None:
        with pytest.raises(RegistryUnreachable):
            await client.by_id(1)

    run(registry, story)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "KEPT_SCHEMAS", 2)
    registry = FakeRegistry({number: ("s", number, "AVRO", '"int"') for number in range(1, 5)})

    async def story(client: RegistryClient) -> None:
        for number in (1, 2, 1, 3, 1, 2):
            await client.by_id(number)

    run(registry, story)
    # 2 was the one that nobody had asked for the longest
    assert [asked[-1] for asked in registry.asked] == ["1", "2", "3", "2"]
