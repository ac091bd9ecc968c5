"""ottla's commands log in by bearer and delegation tokens; the provider is asked as Kafka's tools ask it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ottla.security.token_source import unverified_part
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, ProviderServer, served
from support.java.java_tools import TOOL_FLAGS, java_command
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

PROVIDER = IdentityProvider()
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ASSERTION = "sasl.oauthbearer.assertion."
SETTINGS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "delegation.token.secret.key": "of all nodes",
    "connection.failed.authentication.delay.ms": "0",
}
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@dataclass(frozen=True)
class Place:
    """A broker that takes tokens, the provider of them, and a directory for files."""

    bootstrap: str
    provider: ProviderServer
    directory: Path

    def config(self, **properties: str) -> Path:
        """A client's properties file; `__` stands for a dot."""
        path = self.directory / "client.properties"
        given = {name.replace("__", "."): value for name, value in properties.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        return path

    def run(self, config: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """`ottla` with this configuration."""
        command = [sys.executable, "-m", "ottla", *words]
        command += ["--bootstrap", self.bootstrap, "--command-config", str(config)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def done(self, config: Path, *words: str, stdin: str = "") -> str:
        run = self.run(config, *words, stdin=stdin)
        assert (run.returncode, run.stderr) == (0, ""), (words, run)
        return run.stdout

    def client_credentials(self) -> Path:
        """The configuration of a client with a secret at the provider."""
        return self.config(
            **BEARER,
            **{
                "sasl.oauthbearer.token.endpoint.url": self.provider.token_url,
                "sasl.oauthbearer.client.credentials.client.id": "service",
                "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
            },
        )

    def token_in_file(self, token: str) -> Path:
        file = self.directory / "token"
        file.write_text(token)
        return self.config(**BEARER, **{"sasl.oauthbearer.token.endpoint.url": file.as_uri()})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory: Path = tmp_path_factory.mktemp("by-token")
    keys = directory / "keys.json"
    keys.write_text(PROVIDER.key_set())
    port, with_sasl = free_port(), free_port()
    listen = ("--listen", f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}")
    settings = {**SETTINGS, "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}
    with served(PROVIDER) as provider, OttlaBroker.start(directory / "data", port, settings, listen):
        yield Place(f"127.0.0.1:{with_sasl}", provider, directory)


def test_commands_work_for_a_client_with_a_secret_at_the_provider(place: Place) -> None:
    config = place.client_credentials()
    before = len(place.provider.forms)
    place.done(config, "topic", "create", "by-secret", "--partitions", "3")
    assert len(place.provider.forms) == before + 1  # one token for all connections of a command
    place.done(config, "produce", "by-secret", stdin="one\ntwo\n")
    read = place.done(config, "consume", "by-secret", "--exit", "--from", "start", "--group", "g")
    assert sorted(read.split()) == ["one", "two"]
    assert "by-secret" in place.done(config, "group", "describe", "g")
    assert "alice" in place.done(config, "token", "create", "--json")


def test_commands_work_with_a_token_in_a_file_and_by_a_profile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = place.token_in_file(PROVIDER.token())
    place.done(config, "topic", "create", "by-file")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.directory / "config"))
    ottla = [sys.executable, "-m", "ottla"]
    add = ["profile", "add", "mine", "--bootstrap", place.bootstrap, "--config", str(config), "--use"]
    for words in (add, ["topic", "describe", "by-file"]):
        run = subprocess.run([*ottla, *words], capture_output=True, text=True, timeout=60, check=False)
        assert (run.returncode, run.stderr) == (0, "")
    secret = place.client_credentials()
    add = ["profile", "set", "mine", "--config", str(secret)]
    subprocess.run([*ottla, *add], check=True, capture_output=True, timeout=60)
    shown = subprocess.run(
        [*ottla, "profile", "show"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "s3cret" not in shown.stdout


def test_tokens_that_are_refused_or_cannot_be_had_are_told_in_a_line(place: Place) -> None:
    wrong = PROVIDER.wrong()
    for token in (wrong["expired"], wrong["for another audience"], wrong["unsigned"]):
        run = place.run(place.token_in_file(token), "topic", "list")
        assert run.returncode == 1
        assert "refuses the user" in run.stderr
        assert token not in run.stderr
        (_,) = run.stderr.splitlines()
    gone = place.config(**BEARER, **{"sasl.oauthbearer.token.endpoint.url": "file:///no/such/token"})
    run = place.run(gone, "topic", "list")
    assert run.returncode == 1
    assert "no token to log in with: /no/such/token" in run.stderr
    place.provider.is_down = True
    try:
        run = place.run(place.client_credentials(), "topic", "list")
    finally:
        place.provider.is_down = False
    assert run.returncode == 1
    assert f"no token to log in with: {place.provider.token_url}" in run.stderr
    assert "s3cret" not in run.stderr


def test_commands_work_with_a_delegation_token_and_can_make_no_other(place: Place) -> None:
    made = json.loads(place.done(place.client_credentials(), "token", "create", "--json"))
    config = place.config(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="SCRAM-SHA-256",
        sasl__jaas__config=f'{SCRAM_MODULE} required username="{made["token_id"]}" '
        f'password="{made["hmac"]}" tokenauth=true;',
    )
    place.done(config, "topic", "create", "by-delegation")
    place.done(config, "produce", "by-delegation", stdin="one\n")
    assert place.done(config, "consume", "by-delegation", "--exit", "--from", "start").split() == ["one"]
    refused = place.run(config, "token", "create")
    assert refused.returncode == 1
    assert "token" in refused.stderr.lower()
    by_name = place.config(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="SCRAM-SHA-256",
        sasl__username=made["token_id"],
        sasl__password=made["hmac"],
        ottla__sasl__tokenauth="true",
    )
    assert "by-delegation" in place.done(by_name, "topic", "list")


# -- beside Kafka's own tool -------------------------------------------------------------------------------


def key_file(directory: Path, algorithm: str) -> Path:
    key: Any = rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else None
    key = key or ec.generate_private_key(ec.SECP256R1())
    path = directory / f"{algorithm}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return path


def by_secret(directory: Path) -> dict[str, str]:
    return {
        "sasl.oauthbearer.client.credentials.client.id": "serv:ice",
        "sasl.oauthbearer.client.credentials.client.secret": "s3 cr%t",
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.oauthbearer.scope": "a b",
    }


def by_jwt_bearer(directory: Path) -> dict[str, str]:
    template = directory / "template.json"
    template.write_text('{"header": {"kid": "7"}, "payload": {"extra": [1], "iss": "file", "iat": 3}}')
    return {
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
        f"{ASSERTION}private.key.file": str(key_file(directory, "RS256")),
        f"{ASSERTION}claim.aud": "idp",
        f"{ASSERTION}claim.iss": "settings",
        f"{ASSERTION}claim.sub": "me",
        f"{ASSERTION}claim.jti.include": "true",
        f"{ASSERTION}template.file": str(template),
        "sasl.oauthbearer.scope": "a b",
    }


def by_signed_assertion(directory: Path) -> dict[str, str]:
    return {
        f"{ASSERTION}private.key.file": str(key_file(directory, "ES256")),
        f"{ASSERTION}algorithm": "ES256",
        f"{ASSERTION}claim.iss": "me",
        f"{ASSERTION}claim.exp.seconds": "77",
        f"{ASSERTION}claim.nbf.seconds": "3",
        "sasl.oauthbearer.client.credentials.client.id": "service",
    }


def by_assertion_file(directory: Path) -> dict[str, str]:
    file = directory / "assertion"
    file.write_text(PROVIDER.token())
    return {f"{ASSERTION}file": str(file), f"{ASSERTION}claim.iss": "is left aside"}


def comparable(form: str) -> dict[str, Any]:
    """What a client has sent; assertions as their header and claims, times as their distances."""
    fields: dict[str, Any] = {name: values[0] for name, values in parse_qs(form, strict_parsing=True).items()}
    for name in ("assertion", "client_assertion"):
        if (text := fields.get(name)) is not None:
            claims = dict(unverified_part(text, 1) or {})
            begins = claims.pop("iat")
            assert claims.pop("jti", "") is not None
            distances = {each: claims.pop(each, begins) - begins for each in ("exp", "nbf")}
            has_id = "jti" in (unverified_part(text, 1) or {})
            fields[name] = (unverified_part(text, 0), claims, distances, has_id)
    return fields


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("way", [by_secret, by_jwt_bearer, by_signed_assertion, by_assertion_file])
def test_kafkas_tool_and_ottla_ask_the_provider_the_same(place: Place, tmp_path: Path, way: Any) -> None:
    config = place.config(
        **BEARER,
        **way(tmp_path),
        **{
            "sasl.oauthbearer.token.endpoint.url": place.provider.token_url,
            "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        },
    )
    place.done(config, "topic", "list")
    ours = comparable(place.provider.forms[-1]), place.provider.authorizations[-1]
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={place.provider.token_url}"
    files = ",".join(str(path) for path in tmp_path.iterdir())
    command = java_command(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", place.bootstrap, "--command-config", str(config), "--list"),
        flags=(*TOOL_FLAGS, allowed, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={files}"),
    )
    asked = len(place.provider.forms)
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(place.provider.forms) > asked
    assert (comparable(place.provider.forms[-1]), place.provider.authorizations[-1]) == ours
