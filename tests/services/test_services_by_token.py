"""The registry and the REST Proxy log in to a broker by bearer tokens, with all of their clients."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, served
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}
READ = {"accept": "application/vnd.kafka.json.v2+json"}

pytestmark = pytest.mark.slow


def test_services_get_tokens_for_their_secret_at_the_provider(tmp_path: Path) -> None:
    provider = IdentityProvider()
    port, with_sasl = free_port(), free_port()
    listen = ("--listen", f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}")
    with served(provider, sub="service") as server:
        settings = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.jwks.endpoint.url": server.key_set_url,
        }
        client = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": server.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "service",
            "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
        }
        with OttlaBroker.start(tmp_path / "data", port, settings, listen):
            bootstrap = f"127.0.0.1:{with_sasl}"
            for name, prefix in (("registry", "kafkastore."), ("rest", "client.")):
                own = {prefix + key: value for key, value in client.items()}
                with (
                    ServiceProcess.start(name, bootstrap, tmp_path, own) as service,
                    httpx.Client(base_url=service.url, timeout=TIMEOUT_S, trust_env=False) as web,
                ):
                    (register if name == "registry" else write_and_read)(web)
                assert "s3cret" not in Path(service.server.log_path).read_text()
        assert set(server.forms) == {"grant_type=client_credentials"}


def register(web: httpx.Client) -> None:
    answer = web.post("/subjects/s/versions", json={"schema": '"string"'})
    assert answer.status_code == 200, answer.text
    assert web.get("/subjects").json() == ["s"]


def write_and_read(web: httpx.Client) -> None:
    cluster = web.get("/v3/clusters").json()["data"][0]["cluster_id"]
    assert web.post(f"/v3/clusters/{cluster}/topics", json={"topic_name": "t"}).status_code == 201
    record = {"records": [{"value": {"id": 1}}]}
    written = web.post("/topics/t", json=record, headers=JSON_V2)
    assert written.json()["offsets"][0]["offset"] == 0, written.text
    reader = {"name": "me", "format": "json", "auto.offset.reset": "earliest"}
    assert web.post("/consumers/g", json=reader, headers=V2).status_code == 200
    place = "/consumers/g/instances/me"
    assert web.post(f"{place}/subscription", json={"topics": ["t"]}, headers=V2).status_code == 204
    for _ in range(TIMEOUT_S):
        if read := web.get(f"{place}/records?timeout=1000", headers=READ).json():
            break
    assert [each["value"] for each in read] == [{"id": 1}]
