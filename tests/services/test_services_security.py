"""Secured services as real clients meet them: confluent-kafka's registry client, curl and httpx."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import httpx2  # the one that confluent-kafka stands on
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from support.clients.confluent import create_topic
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess
from support.web.identity_provider import IdentityProvider
from support.web.secured_service import Files

TIMEOUT_S = 60
JSON_V2 = "application/vnd.kafka.json.v2+json"
V2 = "application/vnd.kafka.v2+json"
ORDER = Schema('{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}', "AVRO")
OTTLA = [sys.executable, "-m", "ottla"]
RULES = "Role:dev write orders*; User:bob read orders*; User:CN=writer admin *; User:token write orders*"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = Files(tmp_path_factory.mktemp("keys"))
    for name in ("server", "writer", "stranger"):
        made.identity(name)
    return made


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    yield made
    made.close()


def output(command: list[str]) -> bytes:
    return subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S).stdout


def path(files: Files, name: str) -> str:
    return str(files.directory / f"{name}.pem")


def tls(files: Files) -> dict[str, str]:
    return {"ssl.keystore.location": path(files, "server"), "ottla.access.rules": RULES}


def users(directory: Path) -> dict[str, str]:
    """Basic authentication with the users alice, of the role dev, and bob, by the command that hashes."""
    file = directory / "users.properties"
    with file.open("w") as lines:
        for words in (["alice", "--role", "dev"], ["bob", "--method", "pbkdf2"]):
            command = [*OTTLA, "user", "hash", *words]
            subprocess.run(command, input="secret\n", text=True, stdout=lines, check=True, timeout=TIMEOUT_S)
    assert "secret" not in file.read_text()
    return {"authentication.method": "BASIC", "ottla.authentication.users.file": str(file)}


def client_of(service: ServiceProcess, files: Files, more: Mapping[str, Any]) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": service.url, "ssl.ca.location": files.ca, **more})


def may_write_orders_alone(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("orders-value", ORDER)
    assert client.get_schema(schema_id).schema_str == ORDER.schema_str
    assert client.lookup_schema("orders-value", ORDER).version == 1
    assert client.get_subjects() == ["orders-value"]
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("secret-value", ORDER)
    assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_subject("orders-value")
    assert refused.value.http_status_code == 403


def is_refused(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_subjects()
    assert refused.value.http_status_code == 401


def test_registry_clients_come_with_a_password(broker: OttlaBroker, files: Files, tmp_path: Path) -> None:
    settings = {
        **tls(files),
        **users(tmp_path),
        "kafkastore.topic": "_basic",
        "schema.registry.group.id": "b",
    }
    with ServiceProcess.start("registry", broker.bootstrap, tmp_path, settings, scheme="https") as registry:
        may_write_orders_alone(client_of(registry, files, {"basic.auth.user.info": "alice:secret"}))
        reader = client_of(registry, files, {"basic.auth.user.info": "bob:secret"})
        assert reader.get_subjects() == ["orders-value"]
        with pytest.raises(SchemaRegistryError) as refused:
            reader.register_schema("orders-value", Schema('"string"', "AVRO"))
        assert refused.value.http_status_code == 403
        is_refused(client_of(registry, files, {"basic.auth.user.info": "alice:guess"}))
        is_refused(client_of(registry, files, {}))
        curl = shutil.which("curl")
        if curl is not None:
            asked = [curl, "-sS", "--cacert", files.ca, f"{registry.url}/subjects"]
            told = subprocess.run(
                [*asked, "-u", "bob:secret"], capture_output=True, check=True, timeout=TIMEOUT_S
            )
            assert json.loads(told.stdout) == ["orders-value"]
            told = subprocess.run([*asked, "-i"], capture_output=True, check=True, timeout=TIMEOUT_S)
            assert b"401" in told.stdout.splitlines()[0] and b"www-authenticate: Basic" in told.stdout
        log = registry.server.log_path.read_text()
    assert "secret" not in log.replace("secret-value", "") and "guess" not in log and "PRIVATE" not in log


def test_registry_clients_come_with_a_token(
    broker: OttlaBroker, files: Files, provider: IdentityProvider, tmp_path: Path
) -> None:
    settings = {
        **tls(files),
        **provider.settings(),
        "kafkastore.topic": "_bearer",
        "schema.registry.group.id": "t",
    }

    def bearer(token: str) -> dict[str, str]:
        return {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }

    with ServiceProcess.start("registry", broker.bootstrap, tmp_path, settings, scheme="https") as registry:
        may_write_orders_alone(client_of(registry, files, bearer(provider.token(groups=["dev"]))))
        may_write_orders_alone(client_of(registry, files, bearer(provider.token("ES256", sub="token"))))
        is_refused(client_of(registry, files, bearer(provider.token(exp=1))))
        is_refused(client_of(registry, files, bearer("a.b.c")))


def test_instances_and_clients_know_each_other_by_certificates(
    broker: OttlaBroker, files: Files, tmp_path: Path
) -> None:
    """A follower passes writes on as itself, so its own principal has to be an administrator."""
    settings = {
        **tls(files),
        "ssl.client.authentication": "REQUIRED",
        "ssl.truststore.location": files.ca,
        "ssl.principal.mapping.rules": "RULE:^CN=server$/registry/,DEFAULT",
        "ottla.access.rules": f"{RULES}; User:registry admin *",
        "inter.instance.protocol": "https",
        "kafkastore.topic": "_mtls",
        "schema.registry.group.id": "m",
    }

    def shown(name: str) -> dict[str, str]:
        return {"ssl.certificate.location": path(files, name), "ssl.key.location": path(files, name)}

    with (
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, settings, scheme="https") as first,
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, settings, scheme="https") as second,
    ):
        for number, service in enumerate((first, second)):
            writer = client_of(service, files, shown("writer"))
            schema = Schema(ORDER.schema_str.replace("Order", f"Order{number}"), "AVRO")
            schema_id = writer.register_schema(f"orders-{number}", schema)
            assert writer.get_schema(schema_id).schema_str == schema.schema_str
            writer.set_compatibility(f"orders-{number}", "FULL")
            stranger = client_of(service, files, shown("stranger"))
            with pytest.raises(SchemaRegistryError) as refused:
                stranger.get_subjects()
            assert refused.value.http_status_code == 403
            with pytest.raises(httpx2.TransportError):
                client_of(service, files, {"max.retries": 0}).get_subjects()


@pytest.fixture(scope="module")
def secured_pair(
    broker: OttlaBroker, files: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    """A registry and a REST proxy that asks it, both over https with passwords."""
    directory = tmp_path_factory.mktemp("pair")
    settings = {**tls(files), **users(directory)}
    of_registry = {"kafkastore.topic": "_pair", "schema.registry.group.id": "pair"}
    with ServiceProcess.start(
        "registry", broker.bootstrap, directory, {**settings, **of_registry}, scheme="https"
    ) as registry:
        of_rest = {
            "schema.registry.url": registry.url,
            "schema.registry.basic.auth.user.info": "alice:secret",
            "schema.registry.ssl.truststore.location": files.ca,
        }
        with ServiceProcess.start(
            "rest", broker.bootstrap, directory, {**settings, **of_rest}, scheme="https"
        ) as rest:
            yield registry, rest


def rest_client(rest: ServiceProcess, files: Files, auth: tuple[str, str] | None) -> httpx.Client:
    context = ssl.create_default_context(cafile=files.ca)
    return httpx.Client(base_url=rest.url, verify=context, auth=auth, timeout=TIMEOUT_S, trust_env=False)


def test_rest_s_callers_reach_their_topics_alone(
    broker: OttlaBroker, secured_pair: tuple[ServiceProcess, ServiceProcess], files: Files
) -> None:
    rest = secured_pair[1]
    for topic in ("orders", "hidden"):
        create_topic(broker.bootstrap, topic)
    record = {"records": [{"value": {"id": 1}}]}
    json_v2 = {"content-type": JSON_V2}
    with (
        rest_client(rest, files, ("alice", "secret")) as alice,
        rest_client(rest, files, ("bob", "secret")) as bob,
        rest_client(rest, files, None) as nobody,
    ):
        assert nobody.get("/topics").status_code == 401
        assert alice.get("/topics").json() == ["orders"]
        cluster = alice.get("/v3/clusters").json()["data"][0]["cluster_id"]
        listed = alice.get(f"/v3/clusters/{cluster}/topics").json()["data"]
        assert [each["topic_name"] for each in listed] == ["orders"]
        assert listed[0]["metadata"]["self"].startswith("https://")
        assert alice.post("/topics/orders", json=record, headers=json_v2).status_code == 200
        assert alice.post("/topics/hidden", json=record, headers=json_v2).status_code == 403
        assert bob.post("/topics/orders", json=record, headers=json_v2).status_code == 403
        made = {"topic_name": "orders-2"}
        assert alice.post(f"/v3/clusters/{cluster}/topics", json=made).status_code == 403
        # by a schema: the proxy asks the registry as itself
        avro = {"value_schema": ORDER.schema_str, "records": [{"value": {"id": 7}}]}
        typed = {"content-type": "application/vnd.kafka.avro.v2+json"}
        assert alice.post("/topics/orders", json=avro, headers=typed).status_code == 200
        # a consumer instance is its maker's, and reads what that may read
        instance = {"name": "one", "format": "binary", "auto.offset.reset": "earliest"}
        v2 = {"content-type": V2}
        base = bob.post("/consumers/g", json=instance, headers=v2).json()["base_uri"]
        assert base.startswith("https://")
        for topics in (["hidden"], ["orders", "hidden"]):
            assert bob.post(f"{base}/subscription", json={"topics": topics}, headers=v2).status_code == 403
        pattern = {"topic_pattern": ".*"}
        assert bob.post(f"{base}/subscription", json=pattern, headers=v2).status_code == 403
        assigned = {"partitions": [{"topic": "orders", "partition": 0}]}
        assert bob.post(f"{base}/assignments", json=assigned, headers=v2).status_code == 204
        for method, tail in (("GET", "/records"), ("GET", "/assignments"), ("DELETE", "")):
            assert alice.request(method, f"{base}{tail}").status_code == 404
        read: list[Any] = []
        while len(read) < 2:
            answer = bob.get(f"{base}/records")
            assert answer.status_code == 200
            read += answer.json()
        assert {each["topic"] for each in read} == {"orders"}
        assert bob.delete(base).status_code == 204


def test_certificates_are_taken_over_while_requests_go_on(
    broker: OttlaBroker, files: Files, tmp_path: Path
) -> None:
    certificate = tmp_path / "server.pem"
    certificate.write_text(Path(path(files, "server")).read_text())
    other = Files(tmp_path / "other", "another")
    settings = {"ssl.keystore.location": str(certificate)}
    with (
        ServiceProcess.start("rest", broker.bootstrap, tmp_path, settings, scheme="https") as rest,
        rest_client(rest, files, None) as kept,
    ):
        assert kept.get("/topics").status_code == 200
        certificate.write_text(Path(other.identity("server")).read_text())
        end = time.monotonic() + TIMEOUT_S
        while True:
            with rest_client(rest, other, None) as new:
                try:
                    assert new.get("/topics").status_code == 200
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < end
        assert kept.get("/topics").status_code == 200


@pytest.mark.parametrize("service", ["registry", "rest"])
def test_a_service_is_not_open_to_other_machines_by_mistake(
    service: str, broker: OttlaBroker, tmp_path: Path
) -> None:
    port = free_port()
    command = [*OTTLA, service, "--bootstrap", broker.bootstrap, "--listen", f"0.0.0.0:{port}"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert refused.returncode != 0 and refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    assert f"0.0.0.0:{port}" in line and "--allow-anonymous" in line and "authentication.method" in line
    from support.servers.cluster import ServerProcess

    open_to_all = ServerProcess(
        [*command, "--allow-anonymous"], f"ottla {service} ready", tmp_path / "open.log"
    )
    try:
        open_to_all.start()
        assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 200
    finally:
        open_to_all.stop()
    told = (tmp_path / "open.log").read_text()
    assert told.count("to any machine that reaches it") == 1


def test_up_is_not_open_to_other_machines_by_mistake(tmp_path: Path) -> None:
    command = [*OTTLA, "up", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}"]
    command += ["--registry", f"127.0.0.1:{free_port()}", "--rest", f"0.0.0.0:{free_port()}"]
    command += ["--connect", f"127.0.0.1:{free_port()}", "--sql", f"127.0.0.1:{free_port()}"]
    command += ["--mqtt", f"127.0.0.1:{free_port()}"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert refused.returncode != 0
    assert "--allow-anonymous" in refused.stderr and not (tmp_path / "data").exists()
