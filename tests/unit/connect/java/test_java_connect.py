"""Calls of Connect's REST API that are passed on to a Java worker, which a fake one stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from ottla.client.errors import ClusterError
from ottla.connect.java import connect as java_connect
from ottla.connect.java.connect import Answer, JavaConnect
from ottla.connect.java.errors import JavaConnectError
from ottla.connect.java.settings import java_options
from support.connect.fake_connect import SINK, SOURCE, FakeConnect

REBALANCE = (
    409,
    {
        "error_code": 409,
        "message": "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
    },
)
CONFIG = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/tmp/in"}


def run(
    monkeypatch: pytest.MonkeyPatch, test: Callable[[JavaConnect, FakeConnect], Coroutine[Any, Any, None]]
) -> None:
    options = java_options({"bootstrap.servers": "127.0.0.1:1", "plugin.path": "/p"})
    assert options is not None
    monkeypatch.setattr(java_connect, "RETRY_POLL_SECONDS", 0.001)

    async def bounded() -> None:
        with FakeConnect.running() as fake:
            java = JavaConnect(options)

            async def ready() -> str:
                return fake.url

            monkeypatch.setattr(java._supervisor, "ready", ready)
            monkeypatch.setattr(type(java), "is_running", True)
            async with asyncio.timeout(20):
                try:
                    await test(java, fake)
                finally:
                    await java.close()

    asyncio.run(bounded())


def test_statuses_and_bodies_are_those_of_the_java_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(java: JavaConnect, fake: FakeConnect) -> None:
        def call(method: str, *path: str, body: Any = None, **query: Any) -> Coroutine[Any, Any, Answer]:
            return java.pass_on(method, path, body, query)

        plugins = await java.plugins()
        assert [each["class"] for each in plugins.body] == [SINK, SOURCE]
        validated = await call("PUT", "connector-plugins", "FileStreamSource", "config", "validate", body={})
        assert validated.body["error_count"] == 3
        created = await java.create({"name": "a b/c", "config": CONFIG})
        assert created.status == 201 and created.body["type"] == "source"
        assert (await java.create({"name": "a b/c", "config": CONFIG})).status == 409
        assert (await java.put("other", CONFIG)).status == 201
        assert await java.connectors() == Answer(200, ["a b/c", "other"])
        assert (await java.connectors(["status", "info"])).body["other"].keys() == {"status", "info"}
        status = await call("GET", "connectors", "a b/c", "status")
        assert status.body["connector"]["state"] == "RUNNING"
        assert await call("PUT", "connectors", "other", "pause") == Answer(202, None)
        assert (await call("DELETE", "connectors", "other", "offsets")).status == 400
        assert await call("PUT", "connectors", "other", "stop") == Answer(204, None)
        moved = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 1}}]}
        assert (await call("PATCH", "connectors", "other", "offsets", body=moved)).is_success
        assert await call("GET", "connectors", "other", "offsets") == Answer(200, moved)
        assert await call("POST", "connectors", "other", "restart") == Answer(204, None)
        assert (await call("POST", "connectors", "other", "restart", includeTasks=["true"])).status == 202
        assert (await call("GET", "connectors", "none", "status")).body["error_code"] == 404

    run(monkeypatch, test)


def test_a_rebalance_is_waited_for_but_no_other_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(java: JavaConnect, fake: FakeConnect) -> None:
        fake.before = [REBALANCE] * 3
        assert (await java.put("lines", CONFIG)).status == 201
        assert len(fake.asked) == 4
        assert (await java.create({"name": "lines", "config": CONFIG})).status == 409
        assert len(fake.asked) == 5

    run(monkeypatch, test)


def test_its_connectors_are_known_to_be_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(java: JavaConnect, fake: FakeConnect) -> None:
        monkeypatch.setattr(java_connect, "NEXT_LOOK_SECONDS", 3600)
        fake.put("others")
        assert await java.owns("others")  # another worker's call has made it
        await java.put("lines", CONFIG)
        asked = len(fake.asked)
        assert await java.owns("lines") and not await java.owns("nope") and not await java.owns("nope")
        assert len(fake.asked) == asked  # it has just looked
        fake.put("more")
        await java.connectors()
        assert await java.owns("more") and java.names == {"others", "lines", "more"}
        await java.delete("lines")
        assert not await java.owns("lines")
        del fake.connectors["more"]
        assert (await java.delete("more")).status == 404
        assert not await java.owns("more")

    run(monkeypatch, test)


def test_an_answer_that_does_not_come_is_asked_for_again_where_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(java: JavaConnect, fake: FakeConnect) -> None:
        await java.put("lines", CONFIG)
        whole, failures = java._asked_once, 0

        async def failing(method: str, *rest: Any) -> Answer:
            nonlocal failures
            failures += 1
            if failures % 3:
                raise httpx.ReadError("")
            return await whole(method, *rest)

        monkeypatch.setattr(java, "_asked_once", failing)
        assert (await java.pass_on("GET", ("connectors", "lines", "status"))).status == 200
        answer = await java.create({"name": "next", "config": CONFIG})
        assert answer.status == 503 and "gave no answer: ReadError" in answer.body["message"]
        assert failures == 4 and "next" not in fake.connectors

    run(monkeypatch, test)


def test_a_worker_that_cannot_be_started_is_told_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(java: JavaConnect, fake: FakeConnect) -> None:
        async def failing() -> str:
            raise JavaConnectError("the Java worker ended with 1: no such converter")

        monkeypatch.setattr(java._supervisor, "ready", failing)
        answer = await java.plugins()
        assert answer == Answer(
            503, {"error_code": 503, "message": "the Java worker ended with 1: no such converter"}
        )

    run(monkeypatch, test)


def test_a_java_worker_is_started_only_if_its_group_has_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: set[str] = set()
    begun = []

    async def test() -> None:
        options = java_options({"bootstrap.servers": "127.0.0.1:1", "plugin.path": "/p"})
        assert options is not None
        monkeypatch.setattr(java_connect, "stored_connectors", lambda access, topic: set(stored))
        java = JavaConnect(options)
        monkeypatch.setattr(java._supervisor, "begin", lambda: begun.append(1))
        await java.start()
        assert await java.connectors() == Answer(200, [])
        assert await java.connectors(["status"]) == Answer(200, {})
        assert not java.is_running and java.pid is None and not begun
        stored.add("lines")
        await java.start()
        assert begun and java.names == {"lines"}
        await java.close()

    asyncio.run(test())


def test_a_cluster_that_is_away_is_told_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        options = java_options({"bootstrap.servers": "127.0.0.1:1", "plugin.path": "/p"})
        assert options is not None

        def away(access: object, topic: str) -> set[str]:
            raise ClusterError("cannot read connect-configs-java")

        monkeypatch.setattr(java_connect, "stored_connectors", away)
        answer = await JavaConnect(options).connectors()
        assert answer.status == 503 and "connect-configs-java" in answer.body["message"]

    asyncio.run(test())
