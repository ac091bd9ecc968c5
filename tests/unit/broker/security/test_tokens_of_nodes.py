"""Where a node gets its tokens for a listener, by Kafka's settings: files, secrets, assertions; refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.oauthbearer_settings import retrieval_problem, token_source
from ottla.security.token_assertions import AssertionFile, AssertionGrant, SignedAssertion
from ottla.security.token_source import ClientCredentials, TokenFile

URL = "https://idp.test/token"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
LISTENER = "BROKERS"
PREFIX = "listener.name.brokers.oauthbearer."
ASSERTION = "sasl.oauthbearer.assertion."
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": URL}
SECRET = {
    "sasl.oauthbearer.client.credentials.client.id": "node",
    "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
}
JWT_BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever"}
ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files"
KEY = {f"{ASSERTION}private.key.file": "/key.pem"}


def config(settings: dict[str, str], prefix: str) -> BrokerConfig:
    given = {name if name == ALLOWED_FILES else prefix + name: value for name, value in settings.items()}
    return BrokerConfig.from_mapping({"log.dirs": "/nowhere", **given})


@pytest.mark.parametrize("prefix", ["", PREFIX])
@pytest.mark.parametrize(
    ("settings", "source"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "file:///token"}, TokenFile(Path("/token"))),
        ({**ENDPOINT, **SECRET}, ClientCredentials(URL, "node", "s3cret")),
        # an assertion in place of the secret: a file's first, one that is signed here second
        (
            {**ENDPOINT, **SECRET, f"{ASSERTION}file": "/assertion", f"{ASSERTION}claim.iss": "me"},
            AssertionGrant(URL, AssertionFile(Path("/assertion")), True, "node"),
        ),
        (
            {**ENDPOINT, f"{ASSERTION}claim.iss": "me", **KEY, "sasl.oauthbearer.scope": "all"},
            AssertionGrant(
                URL, SignedAssertion(Path("/key.pem"), claims=(("iss", "me"),)), True, None, "all"
            ),
        ),
        # an assertion for a token
        (
            {
                **ENDPOINT,
                **SECRET,
                **JWT_BEARER,
                **KEY,
                f"{ASSERTION}algorithm": "es256",
                f"{ASSERTION}private.key.passphrase": "knock",
                f"{ASSERTION}claim.aud": "a",
                f"{ASSERTION}claim.sub": "s",
                f"{ASSERTION}claim.exp.seconds": "7",
                f"{ASSERTION}claim.nbf.seconds": "8",
                f"{ASSERTION}claim.jti.include": "true",
                f"{ASSERTION}template.file": "/template",
            },
            AssertionGrant(
                URL,
                SignedAssertion(
                    Path("/key.pem"),
                    "ES256",
                    "knock",
                    (("aud", "a"), ("sub", "s")),
                    7,
                    8,
                    True,
                    Path("/template"),
                ),
                False,
            ),
        ),
    ],
)
def test_settings_name_the_source_of_a_nodes_tokens(
    settings: dict[str, str], source: object, prefix: str
) -> None:
    layers = config(settings, prefix).layers
    assert retrieval_problem(layers, LISTENER) is None
    assert token_source(layers, LISTENER) == source


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "sasl.oauthbearer.token.endpoint.url"),
        (ENDPOINT, "sasl.oauthbearer.client.credentials.client.id"),
        ({**ENDPOINT, **SECRET, **JWT_BEARER}, f"{ASSERTION}private.key.file"),
        ({**ENDPOINT, **SECRET, f"{ASSERTION}claim.iss": "me"}, f"{ASSERTION}private.key.file"),
        ({**ENDPOINT, **JWT_BEARER, **KEY, ALLOWED_FILES: "/other"}, f"{ASSERTION}private.key.file"),
        (
            {**ENDPOINT, **JWT_BEARER, **KEY, f"{ASSERTION}template.file": "/t", ALLOWED_FILES: "/key.pem"},
            f"{ASSERTION}template.file",
        ),
        ({**ENDPOINT, f"{ASSERTION}file": "/a", ALLOWED_FILES: "/key.pem"}, f"{ASSERTION}file"),
        (
            {**ENDPOINT, **SECRET, "sasl.oauthbearer.jwt.retriever.class": "com.example.Mine"},
            "sasl.oauthbearer.jwt.retriever.class",
        ),
    ],
)
def test_the_setting_that_keeps_a_node_from_a_token_is_named(settings: dict[str, str], name: str) -> None:
    problem = retrieval_problem(config(settings, "").layers, LISTENER)
    assert problem is not None
    assert problem[0] == name
    assert "s3cret" not in problem[1]
