"""Connectors of Java's plugins beside ottla's own: which calls are passed on, and lists of both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.connect.java.connect import Answer
from support.connect.memory_worker import memory_worker

OURS = {"connector.class": "FileStreamSource", "topic": "t", "file": "f", "tasks.max": "1"}
JAVAS = {"connector.class": "com.example.PumpConnector", "tasks.max": "1"}
STRING = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {"key.converter": STRING, "value.converter": STRING}


class FakeJava:
    """Satisfies JavaCalls: keeps configurations, and what it was asked."""

    def __init__(self) -> None:
        self.configs: dict[str, Any] = {}
        self.asked: list[tuple[str, tuple[str, ...], Any, Any]] = []

    async def owns(self, connector: str) -> bool:
        return connector in self.configs

    async def connectors(self, expand: Sequence[str] = ()) -> Answer:
        return Answer(200, {name: {"info": name} for name in self.configs} if expand else [*self.configs])

    async def create(self, body: Any) -> Answer:
        self.configs[body["name"]] = body["config"]
        return Answer(201, {"name": body["name"]})

    async def put(self, connector: str, config: Any) -> Answer:
        is_new = connector not in self.configs
        self.configs[connector] = config
        return Answer(201 if is_new else 200, {"name": connector})

    async def delete(self, connector: str) -> Answer:
        del self.configs[connector]
        return Answer(204, None)

    async def plugins(self, connectors_only: bool = True) -> Answer:
        return Answer(200, [{"class": JAVAS["connector.class"], "type": "source", "version": "1"}])

    async def pass_on(self, method: str, path: Sequence[str], body: Any = None, query: Any = None) -> Answer:
        self.asked.append((method, tuple(path), body, query))
        return Answer(202, None)


def test_each_connector_is_asked_where_it_runs(tmp_path: Path) -> None:
    async def story() -> None:
        java = FakeJava()
        async with memory_worker(CONVERTERS, java=java) as client:
            ours = {**OURS, "file": str(tmp_path / "f")}
            assert (await client.ask("POST", "/connectors", {"name": "ours", "config": ours}))[0] == 201
            assert (await client.ask("POST", "/connectors", {"name": "a/b", "config": JAVAS}))[0] == 201
            assert (await client.ask("PUT", "/connectors/put/config", JAVAS))[0] == 201
            assert (await client.ask("PUT", "/connectors/put/config", {**JAVAS, "x": "y"}))[0] == 200
            assert java.configs == {"a/b": JAVAS, "put": {**JAVAS, "x": "y"}}

            assert await client.ask("GET", "/connectors") == (200, ["ours", "a/b", "put"])
            expanded = (await client.ask("GET", "/connectors?expand=info"))[1]
            assert set(expanded) == {"ours", "a/b", "put"} and "config" in expanded["ours"]["info"]
            classes = [each["class"] for each in (await client.ask("GET", "/connector-plugins"))[1]]
            assert classes[-1] == JAVAS["connector.class"] and len(set(classes)) == len(classes) > 1

            assert (await client.ask("PUT", "/connectors/a%2Fb/pause"))[0] == 202
            assert (await client.ask("POST", "/connectors/put/restart?includeTasks=true"))[0] == 202
            assert (await client.ask("PATCH", "/connectors/put/offsets", {"offsets": []}))[0] == 202
            assert java.asked == [
                ("PUT", ("connectors", "a/b", "pause"), None, {}),
                ("POST", ("connectors", "put", "restart"), None, {"includeTasks": ["true"]}),
                ("PATCH", ("connectors", "put", "offsets"), {"offsets": []}, {}),
            ]
            assert (await client.ask("GET", "/connectors/ours/config"))[1]["file"] == ours["file"]
            assert (await client.ask("GET", "/connectors/a%2Fb/logs"))[1]["lines"] == []
            assert (await client.ask("DELETE", "/connectors/put"))[0] == 204
            assert (await client.ask("GET", "/connectors/put/config"))[0] == 404

    asyncio.run(story())


def test_a_name_belongs_to_one_of_the_two(tmp_path: Path) -> None:
    async def story() -> None:
        java = FakeJava()
        async with memory_worker(CONVERTERS, java=java) as client:
            ours = {**OURS, "file": str(tmp_path / "f")}
            await client.ask("POST", "/connectors", {"name": "n", "config": ours})
            status, _ = await client.ask("POST", "/connectors", {"name": "n", "config": JAVAS})
            assert status == 400 and not java.configs, "refused by the worker that has the name"
            await client.ask("POST", "/connectors", {"name": "m", "config": JAVAS})
            await client.ask("PUT", "/connectors/m/config", ours)
            assert java.configs == {"m": ours}, "the Java worker says what becomes of another class"

    asyncio.run(story())


def test_validation_goes_to_the_plugin(tmp_path: Path) -> None:
    async def story() -> None:
        java = FakeJava()
        async with memory_worker(CONVERTERS, java=java) as client:
            status, found = await client.ask(
                "PUT", "/connector-plugins/FileStreamSource/config/validate", OURS
            )
            assert status == 200 and found["name"] == "FileStreamSource"
            assert not java.asked
            await client.ask("PUT", "/connector-plugins/PumpConnector/config/validate", JAVAS)
            path = ("connector-plugins", "PumpConnector", "config", "validate")
            assert java.asked == [("PUT", path, JAVAS, {})]

    asyncio.run(story())
