"""OAUTHBEARER at a listener of a running broker: good tokens, wrong ones, settings, sessions that end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.core.security.sasl.client import OAuthBearerLogin
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from support.nodes.in_process import RawClient, running_broker, until
from support.nodes.sasl import connect_with_sasl, handshake, token

PROVIDER = IdentityProvider()
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
UNSIGNED = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
HANDLER = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
JAAS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "connection.failed.authentication.delay.ms": "0",
}
Story = Callable[[Broker], Awaitable[None]]


def settings_with(directory: Path, changed: Mapping[str, str] | None = None) -> dict[str, str]:
    keys = directory / "keys.json"
    keys.write_text(PROVIDER.key_set())
    return {**SETTINGS, URL: keys.as_uri(), **(changed or {})}


def play(directory: Path, story: Story, changed: Mapping[str, str] | None = None) -> None:
    async def run() -> None:
        async with running_broker(directory / "logs", settings_with(directory, changed)) as broker:
            await story(broker)

    asyncio.run(asyncio.wait_for(run(), 60))


async def log_in(client: RawClient, bearer: str) -> Any:
    """The last answer to a login."""
    login = OAuthBearerLogin(bearer)
    assert (await handshake(client, "OAUTHBEARER")).error_code == 0
    answer = await token(client, login.first())
    if answer.error_code == 0 and answer.auth_bytes:
        challenge = json.loads(answer.auth_bytes)
        assert challenge["status"] in ("invalid_token", "insufficient_scope")
        return await token(client, login.respond(answer.auth_bytes) or b"")
    return answer


async def principal(broker: Broker) -> str:
    (found,) = [
        each.session.principal for each in broker.server._clients.connections if each.session.sasl is not None
    ]
    return found


def test_a_client_gets_in_as_the_subject_of_its_token(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        answer = await log_in(client, PROVIDER.token(exp=int(time.time()) + 600))
        assert answer.error_code == 0
        assert 500_000 < answer.session_lifetime_ms <= 600_000
        assert await principal(broker) == "User:alice"
        served: Any = await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert len(served.brokers) == 1
        client.close()

    play(tmp_path, story)


def test_the_claims_have_the_names_that_are_set(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        assert (await log_in(client, PROVIDER.token(sub=None, client="robot"))).error_code == 0
        assert await principal(broker) == "User:robot"
        client.close()

    prefix = "listener.name.sasl_plaintext.oauthbearer."
    play(tmp_path, story, {f"{prefix}sasl.oauthbearer.sub.claim.name": "client"})


def test_no_wrong_token_lets_a_client_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = PROVIDER.wrong()

    async def story(broker: Broker) -> None:
        for name, bearer in wrong.items():
            client = await connect_with_sasl(broker)
            answer = await log_in(client, bearer)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, name
            assert await client.closed_by_broker()

    play(tmp_path, story)
    for bearer in wrong.values():
        assert not any(len(part) > 8 and part in caplog.text for part in bearer.split("."))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic YWJj\x01\x01",
        b"n,,\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"\xff\xfe",
        b"n,,\x01auth=Bearer a.b.c\x01" * 1000,
        b"n,,\x01auth=Bearer " + b"x" * 400_000 + b"\x01\x01",
    ],
)
def test_malformed_messages_are_refused(tmp_path: Path, first: bytes) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        await handshake(client, "OAUTHBEARER")
        answer = await token(client, first)
        if answer.error_code == 0:  # the error challenge
            answer = await token(client, b"\x01")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_another_subject_than_the_one_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        await handshake(client, "OAUTHBEARER")
        answer = await token(client, f"n,a=admin,\x01auth=Bearer {PROVIDER.token()}\x01\x01".encode())
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "different from the token's principal name" in answer.error_message

    play(tmp_path, story)


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        answer = await log_in(client, PROVIDER.token(exp=time.time() + 0.3))
        assert answer.error_code == 0
        (connection,) = [each for each in broker.server._clients.connections if each.session.sasl]
        sasl = connection.session.sasl
        assert sasl is not None
        await until(lambda: sasl.is_expired(broker.now_ms()))
        payload = encode_request(ApiKey.METADATA, 12, 1, "test", MetadataRequest(topics=[]))
        await client.send(len(payload).to_bytes(4, "big") + payload)
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_a_session_is_renewed_by_a_new_token_of_the_same_subject_only(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        assert (await log_in(client, PROVIDER.token(exp=int(time.time()) + 60))).error_code == 0
        renewed = await log_in(client, PROVIDER.token(exp=int(time.time()) + 600))
        assert renewed.session_lifetime_ms > 60_000
        other = await connect_with_sasl(broker)
        assert (await log_in(other, PROVIDER.token())).error_code == 0
        answer = await log_in(other, PROVIDER.token(sub="bob"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals" in answer.error_message
        assert await other.closed_by_broker()
        client.close()

    play(tmp_path, story)


# -- unsigned tokens ----------------------------------------------------------------------------------------


def test_unsigned_tokens_are_taken_where_that_is_set(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        assert (await log_in(client, PROVIDER.unsigned(scope="kafka read"))).error_code == 0
        assert await principal(broker) == "User:alice"
        now = int(time.time())
        for wrong in (
            PROVIDER.token(scope="kafka"),
            PROVIDER.unsigned(scope="read"),
            PROVIDER.unsigned(scope=[["kafka"], 1]),
            PROVIDER.unsigned(scope="kafka", exp=now - 10),
            PROVIDER.unsigned(scope="kafka", exp=None),
            PROVIDER.unsigned(scope="kafka", iat=now + 100),
            PROVIDER.unsigned(scope="kafka", sub=None),
            PROVIDER.unsigned(scope="kafka") + "x",
        ):
            other = await connect_with_sasl(broker)
            assert (await log_in(other, wrong)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        client.close()

    module = f"{PACKAGE}.OAuthBearerLoginModule required unsecuredValidatorRequiredScope=kafka;"
    play(tmp_path, story, {HANDLER: UNSIGNED, JAAS: module})


# -- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({URL: ""}, f"{URL}=: OAUTHBEARER needs it at listener SASL_PLAINTEXT"),
        ({URL: "http://idp.example.com/keys"}, "it must be https://HOST"),
        ({URL: "ftp://idp.example.com/keys"}, "it must be https://HOST"),
        ({"sasl.oauthbearer.expected.audience": ""}, "sasl.oauthbearer.allow.unverified.audience=true"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "sasl.oauthbearer.allow.unverified.issuer=true"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "it must not be empty"),
        ({HANDLER: "my.Handler"}, "my.Handler can't be loaded"),
        ({"sasl.oauthbearer.jwt.validator.class": "my.Validator"}, "my.Validator can't be loaded"),
        ({JAAS: "my.LoginModule required;"}, "my.LoginModule is not"),
        (
            {"org.apache.kafka.sasl.oauthbearer.allowed.files": "/etc/keys.json"},
            "org.apache.kafka.sasl.oauthbearer.allowed.files does not have it",
        ),
        (
            {
                URL: "https://evil.test/keys",
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://idp.test/keys, https://b.test",
            },
            "org.apache.kafka.sasl.oauthbearer.allowed.urls does not have it",
        ),
    ],
)
def test_settings_that_would_let_anybody_in_stop_the_start(
    tmp_path: Path, changed: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_mapping(settings_with(tmp_path, changed))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [
        {
            "sasl.oauthbearer.expected.audience": "",
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.expected.issuer": "",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
        },
        {HANDLER: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"},
        {
            URL: "https://idp.test/keys",
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://idp.test/keys",
        },
        {HANDLER: UNSIGNED, URL: ""},
    ],
)
def test_settings_of_kafkas_are_taken(tmp_path: Path, changed: dict[str, str]) -> None:
    BrokerConfig.from_mapping(settings_with(tmp_path, changed))


@pytest.mark.parametrize("content", ["", "{}", '{"keys": []}', None])
def test_a_file_without_keys_stops_the_start(tmp_path: Path, content: str | None) -> None:
    keys = tmp_path / "no keys.json"
    if content is not None:
        keys.write_text(content)

    async def main() -> None:
        settings = {**settings_with(tmp_path, {URL: keys.as_uri()}), "log.dirs": str(tmp_path / "logs")}
        with pytest.raises(StartError, match="of listener SASL_PLAINTEXT"):
            await Broker.start(BrokerConfig.from_mapping(settings), on_failure=lambda: None)

    asyncio.run(main())


def test_nothing_of_oauth_is_loaded_without_it() -> None:
    program = (
        "import sys, ottla.broker.broker, ottla.broker.sasl_settings, ottla.broker.security.sasl_listener\n"
        "unwanted = ('joserfc', 'cryptography', 'ottla.security.')\n"
        "wanted = ('ottla.security.principal_mapping',)\n"
        "print([name for name in sys.modules if name.startswith(unwanted) and name not in wanted])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
