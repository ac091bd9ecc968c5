"""The requests of consumer instances over HTTP, their answers and refusals; Kafka is a stand-in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.rest.consumers.consumer_instances import ConsumerInstances
from ottla.rest.consumers.consumer_settings import DataFormat
from ottla.rest.settings import TABLE
from ottla.rest.v2.consumers import accepts
from ottla.web.errors import ServiceError
from support.rest.rest_consumers import FakeConsumer, Proxy, error_of, use_fake_consumers

PART = {"topic": "t", "partition": 0}
LOGS = {("t", 0): [b"1", b"2", b"3"], ("t", 1): [b"4"]}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> list[FakeConsumer]:
    return use_fake_consumers(monkeypatch, LOGS)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


def test_an_instance_has_a_name_and_an_address(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy({"id": "p1"}) as proxy:
            made = await proxy.client.post("/consumers/my group", json={"name": "a b"})
            assert made.status_code == 200
            assert made.headers["content-type"] == "application/vnd.kafka.v2+json"
            assert made.json() == {
                "instance_id": "a b",
                "base_uri": "http://proxy:8082/consumers/my%20group/instances/a%20b",
            }
            assert (await proxy.client.get(f"{made.json()['base_uri']}/assignments")).status_code == 200
            unnamed = (await proxy.client.post("/consumers/g")).json()
            assert unnamed["instance_id"].startswith("rest-consumer-p1-")
            assert unnamed["base_uri"].endswith(f"/consumers/g/instances/{unnamed['instance_id']}")

    run(story())


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("kafka.example:80", "http://kafka.example:80"),
        ("[::1]:8082", "http://[::1]:8082"),
        ("nasty/..//host", "http://proxy:8082"),
        ("a@b", "http://proxy:8082"),
    ],
)
def test_the_address_is_the_one_asked_if_it_is_one(kafka: list[FakeConsumer], host: str, base: str) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            made = await proxy.client.post("/consumers/g", json={"name": "i"}, headers={"host": host})
            assert made.json()["base_uri"] == f"{base}/consumers/g/instances/i"

    run(story())


def test_a_host_of_the_settings_comes_first(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy({"host.name": "rest.example"}) as proxy:
            made = await proxy.client.post("/consumers/g", json={"name": "i"})
            assert made.json()["base_uri"] == "http://rest.example:8082/consumers/g/instances/i"

    run(story())


def test_what_the_creator_says_reaches_the_client(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        given = {
            "client.client.id": "x",
            "consumer.fetch.wait.max.ms": "7",
            "consumer.group.id": "not this",
            "consumer.threads": "50",
        }
        async with Proxy(given) as proxy:
            await proxy.make(**{"auto.offset.reset": "none", "auto.commit.enable": "false"})
            made = kafka[-1].properties
            assert made["group.id"] == "g" and made["client.id"] == "x" and made["fetch.wait.max.ms"] == "7"
            assert made["auto.offset.reset"] == "error"
            assert made["enable.auto.commit"] is False and made["enable.auto.offset.store"] is False
            # the proxy's own settings begin with the prefix too
            assert not {"request.timeout.ms", "instance.timeout.ms", "threads"} & made.keys()

    run(story())


def test_a_setting_that_clients_do_not_have_stops_the_start() -> None:
    async def story() -> None:
        with pytest.raises(ServiceError, match="nonsense"):
            await ConsumerInstances(
                Settings(TABLE, from_mapping({"consumer.nonsense": "1"})),
                ClusterAccess("127.0.0.1:1"),
                RegistryClient(RegistryAccess("http://127.0.0.1:1", attempts=1)),
            ).start()

    run(story())


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", (400, 400)),
        (b"[]", (422, 422)),
        (b'"x"', (422, 422)),
        (b'{"formatt": "json"}', (422, 422)),
        (b'{"format": "xml"}', (422, 42204)),
        (b'{"format": 3}', (422, 42204)),
        (b'{"format": []}', (422, 42204)),
        (b'{"name": 3}', (422, 422)),
        (b'{"name": "a/b"}', (422, 422)),
        (b'{"name": "\\u0000"}', (422, 422)),
        (b'{"auto.offset.reset": "middle"}', (422, 42204)),
        (b'{"auto.offset.reset": {}}', (422, 42204)),
        (b'{"auto.commit.enable": "maybe"}', (422, 42204)),
        (b'{"auto.commit.enable": 1.5}', (422, 42204)),
        (b'{"fetch.min.bytes": "many"}', (422, 42204)),
        (b'{"fetch.min.bytes": true}', (422, 42204)),
        (b'{"fetch.min.bytes": -2}', (422, 40001)),
        (b'{"fetch.min.bytes": "10000001"}', (422, 40001)),
        (b'{"consumer.request.timeout.ms": 0}', (422, 40001)),
        (b'{"consumer.request.timeout.ms": 99999999999}', (422, 40001)),
    ],
)
def test_settings_that_can_not_be(kafka: list[FakeConsumer], body: bytes, error: tuple[int, int]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            assert error_of(await proxy.client.post("/consumers/g", content=body)) == error

    run(story())


def test_a_name_is_taken_once_in_a_group_and_instances_are_limited(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy({"ottla.consumer.instances": "2"}) as proxy:
            path = await proxy.make()
            assert error_of(await proxy.client.post("/consumers/g", json={"name": "i"})) == (409, 40902)
            assert (await proxy.client.post("/consumers/h", json={"name": "i"})).status_code == 200
            full = await proxy.client.post("/consumers/g", json={"name": "j"})
            assert error_of(full) == (503, 503) and "ottla.consumer.instances" in full.json()["message"]
            assert (await proxy.client.delete(path)).status_code == 204
            assert (await proxy.client.post("/consumers/g", json={"name": "j"})).status_code == 200

    run(story())


def test_an_instance_that_nobody_uses_ends_and_one_in_use_does_not(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy({"consumer.instance.timeout.ms": "60000"}) as proxy:
            used, unused = await proxy.make(name="used"), await proxy.make(name="unused")
            proxy.clock.now = 59
            await proxy.client.get(f"{used}/subscription")
            await proxy.instances.tend()
            assert (await proxy.client.get(f"{used}/subscription")).status_code == 200
            proxy.clock.now = 61
            await proxy.instances.tend()
            assert error_of(await proxy.client.get(f"{unused}/subscription")) == (404, 40403)
            assert (await proxy.client.get(f"{used}/subscription")).status_code == 200
            await proxy.instances.stop()
            assert [each.closed for each in kafka] == [True] * 3

    run(story())


@pytest.mark.parametrize(
    ("method", "below"),
    [
        ("DELETE", ""),
        ("POST", "/subscription"),
        ("GET", "/subscription"),
        ("DELETE", "/subscription"),
        ("POST", "/assignments"),
        ("GET", "/assignments"),
        ("POST", "/positions"),
        ("POST", "/positions/beginning"),
        ("POST", "/positions/end"),
        ("POST", "/offsets"),
        ("GET", "/offsets"),
        ("GET", "/records"),
    ],
)
def test_an_instance_that_is_not_there(kafka: list[FakeConsumer], method: str, below: str) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            answer = await proxy.client.request(method, f"/consumers/g/instances/x{below}", content=b"{}")
            assert error_of(answer) == (404, 40403)

    run(story())


def test_topics_partitions_and_pattern_exclude_each_other(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.make()
            sources: list[tuple[str, Any]] = [
                ("subscription", {"topics": ["t"]}),
                ("subscription", {"topic_pattern": "t.*"}),
                ("assignments", {"partitions": [PART]}),
            ]
            for place, body in sources:
                assert (await proxy.client.post(f"{path}/{place}", json=body)).status_code == 204
                assert (await proxy.client.post(f"{path}/{place}", json=body)).status_code == 204
                for other_place, other in sources:
                    if other != body:
                        refused = await proxy.client.post(f"{path}/{other_place}", json=other)
                        assert error_of(refused) == (409, 40903)
                assert (await proxy.client.delete(f"{path}/subscription")).status_code == 204
            both = {"topics": ["t"], "topic_pattern": "t"}
            assert error_of(await proxy.client.post(f"{path}/subscription", json=both)) == (409, 40903)

    run(story())


def test_subscription_and_assignment_are_told(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", "u")
            assert (await proxy.client.get(f"{path}/subscription")).json() == {"topics": ["t", "u"]}
            await proxy.client.get(f"{path}/records")
            parts = [PART, {"topic": "t", "partition": 1}]
            assert (await proxy.client.get(f"{path}/assignments")).json() == {"partitions": parts}
            await proxy.client.delete(f"{path}/subscription")
            assert (await proxy.client.get(f"{path}/subscription")).json() == {"topics": []}
            assert (await proxy.client.get(f"{path}/assignments")).json() == {"partitions": []}

    run(story())


def test_commits_are_of_the_next_offset(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t")
            assert (await proxy.client.post(f"{path}/offsets")).status_code == 204
            assert kafka[-1].offsets == {}
            body = {"offsets": [{**PART, "offset": 0, "metadata": "by hand"}]}
            assert (await proxy.client.post(f"{path}/offsets", json=body)).status_code == 204
            assert kafka[-1].offsets == {("t", 0): 1}
            asked = {"partitions": [PART, {"topic": "t", "partition": 9}]}
            told = await proxy.client.request("GET", f"{path}/offsets", json=asked)
            assert told.json() == {"offsets": [{**PART, "offset": 1, "metadata": ""}]}
            await proxy.client.get(f"{path}/records")
            assert (await proxy.client.post(f"{path}/offsets")).status_code == 204
            assert kafka[-1].offsets == {("t", 0): 3, ("t", 1): 1}

    run(story())


def test_records_come_in_the_instances_format_or_not_at_all(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            refused = await proxy.client.get(
                f"{path}/records", headers={"accept": DataFormat.BINARY.media_type}
            )
            assert error_of(refused) == (406, 40601)
            answer = await proxy.client.get(
                f"{path}/records", headers={"accept": "application/vnd.kafka.json.v2+json"}
            )
            assert answer.headers["content-type"] == "application/vnd.kafka.json.v2+json"
            assert [each["value"] for each in answer.json()] == [1, 2, 3, 4]
            assert answer.json()[0] == {"topic": "t", "key": None, "value": 1, "partition": 0, "offset": 0}

    run(story())


def test_timestamps_and_headers_come_to_reads_that_ask_for_them(kafka: list[FakeConsumer]) -> None:
    usual = {"topic": "t", "key": None, "value": "YQ==", "partition": 0, "offset": 0}
    headers = [{"name": "trace", "value": "/wA="}, {"name": "trace", "value": None}]
    added = {"timestamp": 1_700_000_000_000, "headers": headers}

    async def read(include: str, given: dict[str, str] | None = None) -> Any:
        async with Proxy(given) as proxy:
            path = await proxy.subscribed("t")
            kafka[-1].logs[("t", 0)] = [b"a", b"b"]
            kafka[-1].headers = {0: [("trace", b"\xff\0"), ("trace", None)]}
            kafka[-1].without_timestamp = {1}
            answer = await proxy.client.get(f"{path}/records{include}")
            return answer.json() if answer.status_code == 200 else error_of(answer)

    async def story() -> None:
        # clients of Confluent's proxy may refuse fields that it does not have
        assert (await read(""))[0] == usual
        assert (await read("?include="))[0] == usual
        assert (await read("?include=timestamp,headers"))[0] == {**usual, **added}
        assert (await read("?include=headers"))[0] == {**usual, "headers": headers}
        second = (await read("?include=%20timestamp%20,headers"))[1]
        assert (second["timestamp"], second["headers"]) == (None, [])
        assert (await read("?include=timestamps")) == (400, 40002)
        always = {"ottla.consumer.record.fields": "timestamp"}
        assert (await read("", always))[0] == {**usual, "timestamp": 1_700_000_000_000}
        assert (await read("?include=headers", always))[0] == {**usual, **added}

    run(story())


def test_a_look_at_the_head_reads_nothing(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            assert (await proxy.client.head(f"{path}/records")).status_code == 405
            assert len((await proxy.client.get(f"{path}/records")).json()) == 4

    run(story())


def test_a_record_that_does_not_fit_stays_until_positions_pass_it(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            kafka[-1].logs = {("t", 0): [b"1", b"?", b"3"]}
            assert [each["value"] for each in (await proxy.client.get(f"{path}/records")).json()] == [1]
            for _ in range(3):
                refused = await proxy.client.get(f"{path}/records")
                assert error_of(refused) == (422, 42207)
                assert "partition t-0 at offset 1" in refused.json()["message"]
            past = {"offsets": [{**PART, "offset": 2}]}
            assert (await proxy.client.post(f"{path}/positions", json=past)).status_code == 204
            assert [each["value"] for each in (await proxy.client.get(f"{path}/records")).json()] == [3]
            assert proxy.instances.room.taken_bytes == 0

    run(story())


def test_a_partition_that_stands_still_is_told_while_others_go_on(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            kafka[-1].logs = {("t", 0): [b"?"], ("t", 1): [b"1"]}
            assert [each["value"] for each in (await proxy.client.get(f"{path}/records")).json()] == [1]
            kafka[-1].logs["t", 1].append(b"2")
            assert error_of(await proxy.client.get(f"{path}/records")) == (422, 42207)
            assert [each["value"] for each in (await proxy.client.get(f"{path}/records")).json()] == [2]
            assert error_of(await proxy.client.get(f"{path}/records")) == (422, 42207)

    run(story())


def test_queries_of_a_read(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            for query in ("timeout=soon", "max_bytes=1e3", "timeout=%F0%9F%A6%A6", "max_bytes=" + "9" * 30):
                assert error_of(await proxy.client.get(f"{path}/records?{query}")) == (400, 40002)
            some = await proxy.client.get(f"{path}/records?timeout=0&max_bytes=2")
            assert [each["value"] for each in some.json()] == [1, 2]
            rest = await proxy.client.get(f"{path}/records?timeout=-1&max_bytes=-1")
            assert [each["value"] for each in rest.json()] == [3, 4]

    run(story())


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("subscription", {}),
        ("subscription", {"topics": "t"}),
        ("subscription", {"topics": [3]}),
        ("subscription", {"topics": ["^t"]}),
        ("subscription", {"topics": ["t" * 250]}),
        ("subscription", {"topics": ["t\0"]}),
        ("subscription", {"topics": None, "more": 1}),
        ("subscription", {"topic_pattern": 3}),
        ("subscription", {"topic_pattern": ""}),
        ("subscription", {"topic_pattern": "x" * 256}),
        ("subscription", {"topic_pattern": "((x{99}){99}){99}"}),
        ("subscription", {"topic_pattern": r"(a*)*\1"}),
        ("assignments", {}),
        ("assignments", {"partitions": [[]]}),
        ("assignments", {"partitions": [{"topic": "t"}]}),
        ("assignments", {"partitions": [{"topic": "t", "partition": -1}]}),
        ("assignments", {"partitions": [{"topic": "t", "partition": 2**31}]}),
        ("assignments", {"partitions": [{"topic": "t", "partition": True}]}),
        ("assignments", {"partitions": [{"topic": "t", "partition": 0.5}]}),
        ("assignments", {"partitions": [{**PART, "x": 0}]}),
        ("assignments", {"partitions": [PART] * 10_001}),
        ("positions", {"offsets": [PART]}),
        ("positions", {"offsets": [{**PART, "offset": 2**63}]}),
        ("positions", {"timestamps": [{**PART, "timestamp": "yesterday"}]}),
        ("positions", {"timestamps": [{**PART, "timestamp": "1969-12-31T23:59:59Z"}]}),
        ("positions", {"timestamps": [{**PART, "timestamp": None}]}),
        ("positions/beginning", {"partitions": 0}),
        ("positions/end", {"offsets": []}),
        ("offsets", {"offsets": [{**PART, "offset": -1}]}),
        ("offsets", {"offsets": [{**PART, "offset": 1, "metadata": 3}]}),
        ("offsets", {"offsets": [{**PART, "offset": 1, "metadata": "x" * 5_000}]}),
        ("offsets", {"offsets": {}}),
    ],
)
def test_bodies_that_do_not_fit(kafka: list[FakeConsumer], place: str, body: Any) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.make()
            assert error_of(await proxy.client.post(f"{path}/{place}", json=body)) == (422, 422)

    run(story())


def test_content_types(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            for content_type, status in (
                ("application/vnd.kafka.v2+json", 200),
                ("application/vnd.kafka.json.v2+json; charset=utf-8", 200),
                ("application/json", 200),
                ("text/xml", 415),
                ("application/vnd.kafka.v3+json", 415),
            ):
                headers = {"content-type": content_type}
                made = await proxy.client.post("/consumers/g", content=b"{}", headers=headers)
                assert made.status_code == status
            large = json.dumps({"name": "x" * (1 << 20)})
            assert (await proxy.client.post("/consumers/g", content=large)).status_code == 413

    run(story())


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", True),
        ("*/*", True),
        ("application/vnd.kafka.json.v2+json", True),
        ("APPLICATION/vnd.kafka.json.v2+JSON;q=0.5", True),
        ("application/vnd.kafka.v2+json", True),
        ("text/html, application/json", True),
        ("application/vnd.kafka.avro.v2+json", False),
        ("application/vnd.kafka.json.v2+json;q=0", False),
        ("text/html", False),
        ("application/vnd.kafka.avro.v2+json, */*;q=0.1", True),
        ("*", True),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", True),
        ("application/*;q=0.3", True),
        ("*/*;q=0", False),
        ("application/json, */*;q=0", True),
        ("text/html, *;q=0.0", False),
    ],
)
def test_accept(header: str, expected: bool) -> None:
    assert accepts(header, DataFormat.JSON) is expected
