"""The REST Proxy as a process: its start, its settings, a cluster that is away, its end."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.rest.rest_api import RestApi
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


def test_settings_of_the_proxy_and_its_clients(broker: OttlaBroker, tmp_path: Path) -> None:
    settings = {
        "host.name": "rest.example",
        "bootstrap.servers": f"PLAINTEXT://{broker.bootstrap}",
        "client.socket.timeout.ms": "20000",
        "admin.client.id": "the-admin",
        "nobody.knows": "this",
        "nor.this": "x",
    }

    with RestApi.start(f"PLAINTEXT://{broker.bootstrap}", tmp_path, settings) as api:
        assert api.get("")["metadata"]["self"].startswith(
            f"http://rest.example:{api.service.port}/v3/clusters/"
        )
        assert api.data("/topics/-/partitions/-/reassignment") == []
        log = api.service.server.log_tail()

    assert log.count("unknown settings are ignored keys=nobody.knows,nor.this") == 1
    assert "admin.client.id" not in log


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("admin.no.such.property=1", "no.such.property"),
        ("consumer.instance.timeout.ms=soon", "consumer.instance.timeout.ms"),
        ("ottla.admin.timeout.ms=0", "ottla.admin.timeout.ms"),
    ],
)
def test_settings_that_cannot_be_end_the_start_with_a_line(setting: str, word: str) -> None:
    command = [sys.executable, "-m", "ottla", "rest", "--listen", "127.0.0.1:0", "--set", setting]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("ottla rest:")]
    assert word in line
    assert "Traceback" not in ended.stderr


def test_the_proxy_starts_before_its_cluster_and_says_so_until_then(tmp_path: Path) -> None:
    port = free_port()
    with ServiceProcess.start(
        "rest", f"127.0.0.1:{port}", tmp_path, {"ottla.admin.timeout.ms": "1000"}
    ) as service:
        with httpx.Client(base_url=service.url, timeout=60) as http:
            for path in ("/v3/clusters", "/topics", "/v3/clusters/x/topics", "/brokers"):
                answer = http.get(path)
                assert (answer.status_code, answer.json()["error_code"]) == (500, 50003), path
                assert answer.json()["message"]

            with OttlaBroker.start(tmp_path / "broker", port):
                (cluster,) = http.get("/v3/clusters").json()["data"]
                base = f"/v3/clusters/{cluster['cluster_id']}"
                assert http.get(f"{base}/topics/-/partitions/-/reassignment").json()["data"] == []

            gone = http.get(f"{base}/broker-configs")
            assert (gone.status_code, gone.json()["error_code"]) == (500, 50003)
        assert service.server.stop() == 0


def test_a_cluster_that_takes_connections_and_never_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = {"ottla.admin.timeout.ms": "500"}
        with (
            ServiceProcess.start("rest", bootstrap, tmp_path, settings) as service,
            httpx.Client(base_url=service.url, timeout=60) as http,
        ):
            answer = http.get("/v3/clusters")
            assert (answer.status_code, answer.json()["error_code"]) == (500, 50003)
            assert http.get("/openapi.json").status_code == 200


def test_a_broker_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    with (
        OttlaBroker.start(tmp_path / "broker") as broker,
        RestApi.start(broker.bootstrap, tmp_path / "rest") as api,
    ):
        assert api.data("/broker-configs") is not None
        broker.kill()
        broker.restart()
        assert api.get("/brokers/1/configs/log.cleaner.threads")["name"] == "log.cleaner.threads"
        assert api.create_topic("after")["topic_name"] == "after"


def test_sigterm_is_a_clean_end(broker: OttlaBroker, tmp_path: Path) -> None:
    with RestApi.start(broker.bootstrap, tmp_path) as api:
        api.data("/topics/-/configs")
        assert api.service.server.stop() == 0
        assert "Traceback" not in api.service.server.log_tail(1_000)
