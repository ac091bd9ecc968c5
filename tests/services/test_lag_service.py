"""`ottla lag serve` as a process: Burrow's HTTP, verdicts by commits, a webhook, metrics, access, its end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.groups.changes import commit_offsets, delete_groups
from support.clients.confluent import create_topic, eventually, produce
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

FAST = {"offset.refresh.ms": "200", "topic.refresh.ms": "200", "cluster.name": "here"}


def commit(bootstrap: str, group: str, offset: int, topic: str) -> None:
    async def run() -> None:
        client = ClusterRequests(ClusterAccess(bootstrap))
        try:
            errors = await commit_offsets(client, group, {TopicPartition(topic, 0): offset})
            assert list(errors.values()) == [None]
        finally:
            await client.close()

    asyncio.run(run())


def delete(bootstrap: str, group: str) -> None:
    async def run() -> None:
        client = ClusterRequests(ClusterAccess(bootstrap))
        try:
            assert await delete_groups(client, [group]) == {group: None}
        finally:
            await client.close()

    asyncio.run(run())


@contextmanager
def serving(
    bootstrap: str, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[ServiceProcess]:
    given = {**FAST, **(settings or {})}
    with ServiceProcess.start("lag", bootstrap, directory, given, words=("lag", "serve")) as service:
        yield service


def get(service: ServiceProcess, path: str, expected: int = 200, **options: Any) -> Any:
    answer = httpx.get(service.url + path, **options)
    assert answer.status_code == expected, answer.text
    return answer.json()


def status(service: ServiceProcess, group: str, view: str = "lag") -> dict[str, Any]:
    answer = httpx.get(f"{service.url}/v3/kafka/here/consumer/{group}/{view}")
    found: dict[str, Any] = answer.json()["status"]
    assert (answer.status_code == 404) == (found["status"] == "NOTFOUND")
    return found


@contextmanager
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """A URL, and the messages that are sent there."""
    messages: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/lag", messages
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_group_from_its_first_commit_to_its_end(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    """The verdicts come from the commits' own times; incidents are told and end."""
    topic = group = unique_name
    create_topic(broker.bootstrap, topic, partitions=2)
    produce(broker.bootstrap, topic, [{"value": b"v", "partition": 0}] * 9)
    metrics = f"127.0.0.1:{free_port()}"
    with (
        webhook() as (url, messages),
        serving(
            broker.bootstrap,
            tmp_path,
            {
                "notifier.http.url": url,
                "notifier.send.interval.ms": "3600000",
                "group.allowlist": unique_name,
                "ottla.metrics.listen": metrics,
            },
        ) as service,
    ):
        assert httpx.get(service.url + "/burrow/admin").text == "GOOD"
        ready = service.url + "/burrow/admin/ready"
        eventually(lambda: httpx.get(ready).text == "READY", "the cluster was read")
        assert status(service, group)["status"] == "NOTFOUND"
        # when: it commits, and then no more
        commit(broker.bootstrap, group, 5, topic)
        # then
        eventually(lambda: status(service, group)["status"] == "ERR", "it has stopped")
        found = status(service, group, "status")
        (stopped,) = found["partitions"]
        assert (stopped["status"], stopped["current_lag"], stopped["position"]) == ("STOP", 4, "behind")
        assert stopped["end"]["offset"] == 5 and stopped["lag_seconds"] > 0
        assert (found["totallag"], found["maxlag"]["topic"]) == (4, topic)
        eventually(lambda: len(messages) == 1, "the incident is told")
        event = messages[0]["events"][0]
        assert (messages[0]["kind"], event["event"]["group"], event["event"]["severity"]) == (
            "open",
            group,
            "ERR",
        )
        # and: the other paths of Burrow's
        assert get(service, "/v3/kafka")["clusters"] == ["here"]
        assert get(service, "/v3/kafka/here")["module"]["servers"] == [broker.bootstrap]
        assert topic in get(service, "/v3/kafka/here/topic")["topics"]
        assert get(service, f"/v3/kafka/here/topic/{topic}")["offsets"] == [9, 0]
        assert get(service, f"/v3/kafka/here/topic/{topic}/consumers")["consumers"] == [group]
        assert get(service, "/v3/kafka/here/consumer")["consumers"] == [group]
        (windows,) = get(service, f"/v3/kafka/here/consumer/{group}")["topics"][topic]
        assert windows["offsets"][:-1] == [None] * 9 and windows["offsets"][-1]["offset"] == 5
        for path in (
            "/v3/kafka/there/consumer",
            "/v3/kafka/here/topic/none",
            "/v3/kafka/here/consumer/none",
            "/x",
        ):
            assert get(service, path, 404)["error"] is True
        # and: the metrics, by the service and by its own endpoint
        for address in (service.url, f"http://{metrics}"):
            lines = httpx.get(address + "/metrics").text.splitlines()
            labels = f'consumergroup="{group}",topic="{topic}",partition="0"'
            assert f"kafka_consumergroup_lag{{{labels}}} 4" in lines
            assert f"kafka_consumergroup_current_offset{{{labels}}} 5" in lines
            assert f"kafka_consumergroup_partition_status{{{labels}}} 4" in lines
            assert f'kafka_consumergroup_status{{consumergroup="{group}"}} 3' in lines
            assert any(line.startswith(f"kafka_consumergroup_lag_seconds{{{labels}}} ") for line in lines)
        assert httpx.get(f"http://{metrics}/readyz").status_code == 200
        # when: it has read the rest
        commit(broker.bootstrap, group, 9, topic)
        # then
        eventually(lambda: status(service, group)["status"] == "OK", "it has caught up")
        assert status(service, group)["totallag"] == 0
        eventually(lambda: len(messages) == 2, "the end is told")
        assert (messages[1]["kind"], messages[1]["events"][0]["id"]) == ("close", event["id"])
        # when: it is deleted
        delete(broker.bootstrap, group)
        # then
        eventually(lambda: status(service, group)["status"] == "NOTFOUND", "it is gone")


def test_a_group_that_commits_the_same_offset_again_stalls(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    """Only the topic of commits tells that: to coordinators it looks like a group that has stopped."""
    topic = group = unique_name
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, [{"value": b"v"}] * 9)
    commit(broker.bootstrap, group, 1, topic)
    settings = {"group.allowlist": unique_name, "intervals": "3"}
    with serving(broker.bootstrap, tmp_path, settings) as service:
        seen = set()

        def stalls() -> bool:
            commit(broker.bootstrap, group, 1, topic)
            seen.update(one["status"] for one in status(service, group)["partitions"])
            return "STALL" in seen

        eventually(stalls, "its commits stand still")


def test_names_with_slashes_and_callers_that_may_see_some_groups(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    produce(broker.bootstrap, topic, [{"value": b"v"}])
    for group in ("a/b c", "hidden"):
        commit(broker.bootstrap, f"{unique_name} {group}", 0, topic)
    settings = {"group.allowlist": unique_name, "ottla.access.rules": "* read other-*"}
    with serving(broker.bootstrap, tmp_path, {"group.allowlist": unique_name}) as service:
        path = f"/v3/kafka/here/consumer/{unique_name}%20a%2Fb%20c/status"
        eventually(lambda: httpx.get(service.url + path).status_code == 200, "the group is known")
        assert get(service, path)["status"]["group"] == f"{unique_name} a/b c"
    with serving(broker.bootstrap, tmp_path / "closed", settings) as service:
        ready = service.url + "/burrow/admin/ready"
        eventually(lambda: httpx.get(ready).text == "READY", "the cluster was read")
        assert get(service, "/v3/kafka/here/consumer")["consumers"] == []
        assert "denied READ" in get(service, path, 403)["message"]
        assert get(service, "/v3/kafka/here/topic", 403)["error"] is True
        assert httpx.get(service.url + "/metrics").status_code == 403
        assert (
            httpx.delete(service.url + f"/v3/kafka/here/consumer/{unique_name}%20hidden").status_code == 403
        )


def test_the_service_starts_before_its_cluster_and_says_so(tmp_path: Path) -> None:
    port = free_port()
    with serving(f"127.0.0.1:{port}", tmp_path) as service:
        ready = service.url + "/burrow/admin/ready"
        assert httpx.get(ready).status_code == 503
        assert status(service, "any")["status"] == "NOTFOUND"
        with OttlaBroker.start(tmp_path / "data", port):
            eventually(lambda: httpx.get(ready).status_code == 200, "the cluster was read")


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("group.allowlist=(", "group.allowlist"),
        ("notifier.http.url=hook", "notifier.http.url"),
        ("minimum.complete=2", "minimum.complete"),
        ("notifier.http.ssl.truststore.location=/no/such.pem", "truststore.location"),
        ("client.no.such=1", "no.such"),
    ],
)
def test_settings_that_cannot_be_end_the_start_with_a_line(setting: str, word: str) -> None:
    command = [sys.executable, "-m", "ottla", "lag", "serve", "--listen", "127.0.0.1:0", "--set", setting]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("ottla lag")]
    assert word in line and "Traceback" not in ended.stderr


def test_commits_of_before_the_start_are_in_the_first_verdict(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    """A group that commits now and then must not look as if it had stopped, because its window is empty."""
    topic = group = create_topic(broker.bootstrap, unique_name)
    produce(broker.bootstrap, topic, [{"value": b"v"}] * 9)
    for offset in range(1, 5):
        commit(broker.bootstrap, group, offset, topic)
    with serving(broker.bootstrap, tmp_path, {"group.allowlist": unique_name}) as service:
        path = f"/v3/kafka/here/consumer/{group}"
        eventually(lambda: httpx.get(service.url + path).status_code == 200, "the group is known")
        (windows,) = get(service, path)["topics"][topic]
        assert [one["offset"] for one in windows["offsets"] if one is not None] == [1, 2, 3, 4]
