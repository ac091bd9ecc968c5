"""`ottla registry` on a properties file as Confluent ships it, with two listeners and a mixed bootstrap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker


def test_a_file_of_confluent_s_with_two_listeners_starts_it(broker: OttlaBroker, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    file = tmp_path / "schema-registry.properties"
    file.write_text(
        f"""\
# as shipped, but for the addresses
listeners=http://0.0.0.0:{ports[0]},http://127.0.0.1:{ports[1]}
kafkastore.bootstrap.servers=SASL_PLAINTEXT://127.0.0.1:1,PLAINTEXT://{broker.bootstrap}
kafkastore.topic=_schemas_of_confluent
kafkastore.max.request.size=1048576
kafkastore.interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor
host.name=127.0.0.1
debug=false
metadata.encoder.secret=REPLACE_ME_WITH_HIGH_ENTROPY_STRING
resource.extension.class=io.confluent.dekregistry.DekRegistryResourceExtension
schema.registry.group.id=confluent-file
"""
    )
    log_path = tmp_path / "registry.log"
    command = [sys.executable, "-m", "ottla", "registry", "--config", str(file), "--allow-anonymous"]
    server = ServerProcess(command, "ottla registry ready", log_path)
    try:
        server.start()
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        posted = httpx.post(f"{urls[1]}/subjects/s/versions", json={"schema": '"int"'}, timeout=20)
        assert posted.status_code == 200, posted.text
        assert httpx.get(f"{urls[0]}/subjects", timeout=20).json() == ["s"]
        assert httpx.get(f"{urls[0]}/dek-registry/v1/keks", timeout=20).json() == []
    finally:
        if server.running:
            server.stop()
    log = log_path.read_text()
    for name in ("metadata.encoder.secret", "kafkastore.interceptor.classes"):
        assert name in log


def test_protection_that_is_not_there_ends_it_before_it_listens(tmp_path: Path) -> None:
    file = tmp_path / "schema-registry.properties"
    file.write_text(f"listeners=http://127.0.0.1:{free_port()}\nauthentication.method=BASIC\n")
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", "registry", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert f"{file}:2: authentication.method=BASIC: it needs ottla.authentication.users.file" in ended.stderr


def test_a_client_property_that_no_client_knows_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "registry", "--listen", f"127.0.0.1:{free_port()}"]
    command += ["--bootstrap", "127.0.0.1:1", "--set", "kafkastore.no.such.thing=1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert 'the settings kafkastore.*: No such configuration property: "no.such.thing"' in ended.stderr
