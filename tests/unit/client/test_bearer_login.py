"""A client's login by bearer tokens: settings in both spellings, refusals, how long a token is used."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.bearer_login import FAILURE_SECONDS, USED_PART, BearerLogin, BearerTokens
from ottla.client.errors import ClientOptionError
from ottla.security.token_assertions import AssertionFile, AssertionGrant, SignedAssertion
from ottla.security.token_source import ClientCredentials, TokenFile, TokenUnavailable
from support.identity_provider import encoded

URL = "https://idp.test/token"
KAFKA = "org.apache.kafka.common.security.oauthbearer"
BASE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": URL}
CLIENT = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s3cret"}
ASSERTION = "sasl.oauthbearer.assertion."


def login(properties: Mapping[str, str]) -> BearerLogin:
    found = ClusterAccess("a:1", {**BASE, **properties}).connection().credentials
    assert isinstance(found, BearerLogin)
    return found


@pytest.mark.parametrize(
    ("properties", "source"),
    [
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.method": "oidc"}, ClientCredentials(URL, "me", "s3cret")),
        (
            {
                **ENDPOINT,
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
                "sasl.oauthbearer.header.urlencode": "true",
                "sasl.oauthbearer.scope": "all",
                "sasl.login.callback.handler.class": f"{KAFKA}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.ClientCredentialsJwtRetriever",
                "sasl.oauthbearer.jwt.validator.class": f"{KAFKA}.ClientJwtValidator",
                "sasl.jaas.config": f"{KAFKA}.OAuthBearerLoginModule required;",
            },
            ClientCredentials(URL, "me", "s3cret", "all", None, True),
        ),
        (
            {
                **ENDPOINT,
                "sasl.jaas.config": f'{KAFKA}.OAuthBearerLoginModule required clientId="me" '
                'clientSecret="s3cret" scope="all" ssl.truststore.location="/ca.pem";',
            },
            ClientCredentials(URL, "me", "s3cret", "all", "/ca.pem"),
        ),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///t"}, TokenFile(Path("/t"))),
        (
            {
                **ENDPOINT,
                "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.JwtBearerJwtRetriever",
                f"{ASSERTION}private.key.file": "/key",
                f"{ASSERTION}private.key.passphrase": "p",
                f"{ASSERTION}algorithm": "es256",
                f"{ASSERTION}claim.aud": "a",
                f"{ASSERTION}claim.sub": "s",
                f"{ASSERTION}claim.exp.seconds": "5",
                f"{ASSERTION}claim.nbf.seconds": "6",
                f"{ASSERTION}claim.jti.include": "true",
                f"{ASSERTION}template.file": "/template",
            },
            AssertionGrant(
                URL,
                SignedAssertion(
                    Path("/key"),
                    "ES256",
                    "p",
                    (("aud", "a"), ("sub", "s")),
                    5,
                    6,
                    True,
                    Path("/template"),
                ),
                False,
            ),
        ),
        # an assertion in place of the secret (KIP-1258): by a file first, by an issuer second
        (
            {**ENDPOINT, **CLIENT, f"{ASSERTION}file": "/assertion", f"{ASSERTION}claim.iss": "me"},
            AssertionGrant(URL, AssertionFile(Path("/assertion")), True, "me"),
        ),
        (
            {**ENDPOINT, f"{ASSERTION}claim.iss": "me", f"{ASSERTION}private.key.file": "/key"},
            AssertionGrant(URL, SignedAssertion(Path("/key"), claims=(("iss", "me"),)), True),
        ),
    ],
)
def test_settings_in_either_spelling_name_the_source_of_tokens(
    properties: dict[str, str], source: object
) -> None:
    access = ClusterAccess("a:1", {**BASE, **properties})
    access.require_common_properties()
    assert login(properties).source == source


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({}, "needs sasl.oauthbearer.token.endpoint.url"),
        (ENDPOINT, "sasl.oauthbearer.client.id"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://idp.test/token", **CLIENT}, "must be https"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://idp.test", **CLIENT}, "must be https"),
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.method": "saml"}, "only oidc"),
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.grant.type": "password"}, "must be client_credentials"),
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.header.urlencode": "yes"}, "true or false"),
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.extensions": "auth=x"}, "other than auth"),
        ({**ENDPOINT, **CLIENT, "sasl.oauthbearer.extensions": "a=\x01b"}, "NAME=VALUE"),
        ({**ENDPOINT, f"{ASSERTION}claim.iss": "me"}, "private.key.file is needed"),
        (
            {
                **ENDPOINT,
                f"{ASSERTION}claim.iss": "me",
                f"{ASSERTION}private.key.file": "/k",
                f"{ASSERTION}algorithm": "HS256",
            },
            "must be one of RS256, ES256",
        ),
        (
            {
                **ENDPOINT,
                f"{ASSERTION}claim.iss": "me",
                f"{ASSERTION}private.key.file": "/k",
                f"{ASSERTION}claim.exp.seconds": "-1",
            },
            "not a number of seconds",
        ),
        ({"sasl.oauthbearer.jwt.retriever.class": "com.example.Mine"}, "are known here"),
        ({"sasl.oauthbearer.jwt.validator.class": f"{KAFKA}.BrokerJwtValidator"}, "are known here"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "are known here"),
    ],
)
def test_settings_by_which_no_token_can_be_had_are_refused(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ClientOptionError, match=problem) as told:
        login(properties)
    assert "s3cret" not in str(told.value)


def test_extensions_go_with_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tok")
    where = {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    plain = login(where)
    assert plain.first_message() == b"n,,\x01auth=Bearer tok\x01\x01"
    jaas = f'{KAFKA}.OAuthBearerLoginModule required extension_a="1 2" extension_bc="3";'
    for properties in ({"sasl.oauthbearer.extensions": "a=1 2,bc=3"}, {"sasl.jaas.config": jaas}):
        message = login({**where, **properties}).first_message()
        assert message == b"n,,\x01auth=Bearer tok\x01a=1 2\x01bc=3\x01\x01"


@dataclass(frozen=True, eq=False)
class Source:
    """Tokens from a list; an empty text is a failure. asked: the times, by the test's clock."""

    now: list[float]
    coming: list[str] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    def fetch(self) -> str:
        self.asked.append(self.now[0])
        if not (token := self.coming.pop(0)):
            raise TokenUnavailable("the provider is down")
        return token


def until(ends: float | None) -> str:
    """A token with this end."""
    return f"{encoded({'alg': 'RS256'})}.{encoded({} if ends is None else {'exp': ends})}.x"


def test_a_token_is_used_for_most_of_its_life_and_its_successor_fetched_then() -> None:
    now = [1000.0]
    source, tokens = Source(now, [until(1100), until(1300)]), BearerTokens(lambda: now[0])
    last = 1000 + 100 * USED_PART
    for now[0] in (1000.0, 1050.0, last - 0.1):
        assert tokens.current(source) == until(1100)
    now[0] = last
    assert tokens.current(source) == until(1300)
    assert source.asked == [1000.0, last]


def test_a_token_that_does_not_say_its_end_is_used_once() -> None:
    now = [1000.0]
    source, tokens = Source(now, [until(None), "opaque"]), BearerTokens(lambda: now[0])
    assert [tokens.current(source), tokens.current(source)] == [until(None), "opaque"]


def test_a_token_is_used_to_its_end_while_the_provider_is_down() -> None:
    now = [1000.0]
    source = Source(now, [until(1100), "", "", ""])
    tokens = BearerTokens(lambda: now[0])
    tokens.current(source)
    for now[0] in (1090.0, 1090.5, 1090.0 + FAILURE_SECONDS, 1099.0):
        assert tokens.current(source) == until(1100)
    assert source.asked == [1000.0, 1090.0, 1090.0 + FAILURE_SECONDS, 1099.0]
    now[0] = 1100.0
    source.coming.append("")
    with pytest.raises(TokenUnavailable, match="the provider is down"):
        tokens.current(source)
    now[0] += FAILURE_SECONDS / 2  # not asked again yet
    with pytest.raises(TokenUnavailable, match="the provider is down"):
        tokens.current(source)
    now[0] += FAILURE_SECONDS
    source.coming.append(until(2000))
    assert tokens.current(source) == until(2000)


def test_connections_that_ask_at_once_share_a_token() -> None:
    now = [1000.0]
    source, tokens = Source(now, [until(5000)]), BearerTokens(lambda: now[0])
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.current(source))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [until(5000)] * 20


def test_all_connections_of_an_access_share_tokens_and_another_process_has_its_own() -> None:
    access = ClusterAccess("a:1", {**BASE, **ENDPOINT, **CLIENT})
    named: Any = access.with_client_id("x").connection().credentials
    again: Any = access.connection().credentials
    assert named.tokens is again.tokens
    copied: Any = pickle.loads(pickle.dumps(access)).connection().credentials
    assert copied.source == again.source
    assert copied.tokens is not again.tokens


def test_librdkafka_and_aiokafka_get_their_tokens_from_the_same_source(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text(until(5_000_000_000))
    where = {"sasl.oauthbearer.token.endpoint.url": file.as_uri(), "sasl.oauthbearer.extensions": "a=b"}
    access = ClusterAccess("a:1", {**BASE, **where})
    given = access.librdkafka({"https.ca.location": "/ca"})
    assert given.keys() == {"bootstrap.servers", "security.protocol", "sasl.mechanism", "oauth_cb"}
    assert given["oauth_cb"]("") == (until(5_000_000_000), 5_000_000_000.0, "", {"a": "b"})
    provider = access.aiokafka()["sasl_oauth_token_provider"]
    assert asyncio.run(provider.token()) == until(5_000_000_000)
    assert provider.extensions() == {"a": "b"}
    file.unlink()
    with pytest.raises(TokenUnavailable):
        ClusterAccess("a:1", {**BASE, **where}).librdkafka()["oauth_cb"]("")
    assert f"no token to log in with: {file}" in caplog.text
    with pytest.raises(ClientOptionError, match="Spark's Kafka client gets no bearer tokens"):
        access.java()


SCRAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="id" password="hmac" tokenauth=true;',
}


def test_a_delegation_token_is_for_our_own_clients_and_javas() -> None:
    access = ClusterAccess("a:1", SCRAM)
    access.require_common_properties()
    found: Any = access.connection().credentials
    assert (found.user, found.password, found.by_token) == ("id", "hmac", True)
    assert access.java()["sasl.jaas.config"].endswith('password="hmac" tokenauth="true";')
    for client in (access.librdkafka, access.aiokafka):
        with pytest.raises(ClientOptionError, match="delegation token"):
            client()


def test_a_login_is_by_no_token_where_that_is_not_said() -> None:
    for properties in (
        {**SCRAM, "sasl.jaas.config": SCRAM["sasl.jaas.config"].replace("=true", "=false")},
        {**SCRAM, "sasl.jaas.config": SCRAM["sasl.jaas.config"].replace("scram.Scram", "plain.Plain")},
        {**SCRAM, "sasl.mechanism": "PLAIN"},
    ):
        found: Any = ClusterAccess("a:1", properties).connection().credentials
        assert found.by_token is False
