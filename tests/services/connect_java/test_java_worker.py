"""Kafka Connect's own plugins in a Java worker, on ottla's broker: through its life, kills included."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from ottla.client.access import ClusterAccess
from ottla.client.reading import read, reader
from ottla.connect.java.connect import Answer, JavaConnect
from ottla.connect.java.settings import java_options
from ottla.pipeline.spark.maven import Jar, fetch_jars
from support.clients.confluent import admin_client, create_topic
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.sasl_brokers import ottla_listeners

CONNECT_FILE = Jar(
    "org.apache.kafka",
    "connect-file",
    "4.3.1",
    "e330c491309d8f839f2abd7260c72a3687d6d82ecf2ba0f7699a46d41a46dcac",
)
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
WITHIN_SECONDS = 120

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]


def plugin_directory(directory: Path) -> Path:
    """A plugin.path with the file connectors in a directory of their own."""
    (directory / "plugins" / "file").mkdir(parents=True)
    for jar in fetch_jars([CONNECT_FILE]):
        shutil.copy(jar, directory / "plugins" / "file")
    return directory / "plugins"


def values(bootstrap: str, topic: str) -> list[str]:
    """The values of the committed records of a topic's one partition, up to its end now."""
    access = ClusterAccess(bootstrap)
    client = reader(access)
    begin, end = client.get_watermark_offsets(TopicPartition(topic, 0), 30)
    client.close()
    return [(message.value() or b"").decode() for message in read(access, topic, {0: begin}, {0: end})]


async def until(ask: Callable[[], Awaitable[Answer]], holds: Callable[[Any], bool]) -> Any:
    """The body of the first answer for which this holds."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            answer = await ask()
            if answer.is_success and holds(answer.body):
                return answer.body
            await asyncio.sleep(0.1)


def of_connector(java: JavaConnect, method: str, connector: str, *path: str) -> Awaitable[Answer]:
    """A call about a connector."""
    return java.pass_on(method, ("connectors", connector, *path))


def is_running(status: Mapping[str, Any]) -> bool:
    parts = [status["connector"], *status["tasks"]]
    return len(parts) > 1 and all(each["state"] == "RUNNING" for each in parts)


def test_plugins_of_a_jar_run_and_go_on_after_kills(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    told: list[tuple[str | None, str]] = []

    with OttlaBroker.start(tmp_path / "broker") as broker:
        options = java_options(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "jars",
                "plugin.path": str(plugin_directory(tmp_path)),
                "offset.flush.interval.ms": "200",
                "exactly.once.source.support": "enabled",
                "ottla.java.heap": "256m",
            }
        )
        assert options is not None
        create_topic(broker.bootstrap, "lines")

        def make() -> JavaConnect:
            return JavaConnect(options, lambda connector, line: told.append((connector, line)))

        async def arrive(count: int) -> list[str]:
            async with asyncio.timeout(WITHIN_SECONDS):
                while True:
                    found = await asyncio.to_thread(values, broker.bootstrap, "lines")
                    if len(found) >= count:
                        return found
                    await asyncio.sleep(0.2)

        async def first_life() -> None:
            java = make()
            await java.start()
            assert not java.is_running  # nothing has asked for it
            plugins = {each["class"].rpartition(".")[2]: each for each in (await java.plugins()).body}
            assert plugins["FileStreamSourceConnector"]["type"] == "source"
            assert "MirrorHeartbeatConnector" in plugins
            checked = await java.pass_on(
                "PUT",
                ("connector-plugins", "FileStreamSource", "config", "validate"),
                {"connector.class": "FileStreamSource"},
            )
            errors = {
                each["value"]["name"]: each["value"]["errors"]
                for each in checked.body["configs"]
                if each["value"]["errors"]
            }
            assert errors.keys() == {"name", "topic"}
            source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines", **STRINGS}
            assert (await java.create({"name": "source", "config": source})).status == 201
            await until(lambda: of_connector(java, "GET", "source", "status"), is_running)
            assert await arrive(2) == ["one", "two"]
            heart = {
                "connector.class": "MirrorHeartbeatConnector",
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                "target.cluster.bootstrap.servers": broker.bootstrap,
                "heartbeats.topic.replication.factor": "1",
                "emit.heartbeats.interval.seconds": "1",
            }
            assert (await java.put("heart", heart)).status == 201
            await until(lambda: of_connector(java, "GET", "heart", "status"), is_running)

            for number in range(2):
                assert java.pid is not None
                os.kill(java.pid, signal.SIGKILL)
                with lines.open("a") as file:
                    file.write(f"after kill {number}\n")
                await arrive(3 + number)
                await until(lambda: of_connector(java, "GET", "source", "status"), is_running)
                assert {"source", "heart"} <= java.names
            assert (await java.delete("heart")).status == 204
            await java.close()

        async def second_life() -> None:
            java = make()
            await java.start()  # the group has a connector, so it starts by itself
            assert java.is_running and java.names == {"source"}
            with lines.open("a") as file:
                file.write("last\n")
            assert (await arrive(5))[-1] == "last"
            assert (await of_connector(java, "PUT", "source", "stop")).status == 204
            await until(lambda: of_connector(java, "GET", "source", "status"), lambda body: not body["tasks"])
            offsets = (await of_connector(java, "GET", "source", "offsets")).body["offsets"]
            assert offsets == [
                {"partition": {"filename": str(lines)}, "offset": {"position": lines.stat().st_size}}
            ]
            assert (await of_connector(java, "GET", "source", "topics")).body == {
                "source": {"topics": ["lines"]}
            }
            assert (await of_connector(java, "DELETE", "source", "offsets")).status == 200
            assert (await java.delete("source")).status == 204
            assert (await java.connectors()).body == []
            await java.close()

        asyncio.run(first_life())
        asyncio.run(second_life())
        # None is there twice: its source is exactly once.
        assert values(broker.bootstrap, "lines") == lines.read_text().splitlines()
        assert values(broker.bootstrap, "heartbeats")

        async def third_life() -> None:
            java = make()
            await java.start()
            assert not java.is_running  # its connectors are deleted
            await java.close()

        asyncio.run(third_life())
    assert any(connector == "source" for connector, _ in told)


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "broker") as broker:
        options = java_options(
            {
                "bootstrap.servers": broker.bootstrap,
                "plugin.path": str(plugin_directory(tmp_path)),
                "value.converter": "org.example.NoConverter",
            }
        )
        assert options is not None

        async def life() -> Answer:
            java = JavaConnect(options)
            try:
                return await java.plugins()
            finally:
                await java.close()

        answer = asyncio.run(life())
        assert answer.status == 503
        assert "org.example.NoConverter" in answer.body["message"]


def test_the_workers_login_is_that_of_the_java_worker_and_of_its_connectors(tmp_path: Path) -> None:
    password = 'a,b="c\\'
    port, with_sasl = free_port(), free_port()
    settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    with OttlaBroker.start(tmp_path / "broker", port, settings, ottla_listeners(port, with_sasl)) as broker:
        user = UserScramCredentialUpsertion(
            "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192), password.encode()
        )
        admin_client(broker.bootstrap).alter_user_scram_credentials([user])["ann"].result(30)
        create_topic(broker.bootstrap, "lines")
        (tmp_path / "in.txt").write_text("one\n")
        # A client without a login gets nowhere at this address.
        options = java_options(
            {
                "bootstrap.servers": f"127.0.0.1:{with_sasl}",
                "plugin.path": str(plugin_directory(tmp_path)),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": password,
                "ottla.java.heap": "256m",
            }
        )
        assert options is not None

        async def life() -> None:
            java = JavaConnect(options)
            await java.start()
            file = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), **STRINGS}
            assert (await java.put("source", {**file, "topic": "lines"})).status == 201
            sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), **STRINGS}
            assert (await java.put("sink", {**sink, "topics": "lines"})).status == 201
            async with asyncio.timeout(WITHIN_SECONDS):
                while True:
                    if (tmp_path / "out.txt").exists() and (tmp_path / "out.txt").read_text() == "one\n":
                        break
                    await asyncio.sleep(0.1)
            await java.close()

        asyncio.run(life())
