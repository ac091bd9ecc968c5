"""Listeners with TLS: certificates, principals, broken handshakes, wrong protocols, floods, forms of keys."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker, StartError
from ottla.broker.network import tls_connection
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from support.nodes.in_process import RawClient, open_connections, running_broker, until
from support.servers.tls_trial import Trial

METADATA = MetadataRequest(topics=[])
Story = Callable[[Broker, Trial], Awaitable[None]]


def play(
    path: Path,
    story: Story,
    settings: dict[str, str] | None = None,
    listeners: str = "SSL://127.0.0.1:0",
) -> None:
    """Play the story with a broker whose first listener is one with TLS."""
    trial = Trial.create(path / "certs")

    async def run() -> None:
        values = {"listeners": listeners, **trial.settings(), **(settings or {})}
        async with running_broker(path / "data", values) as broker:
            await story(broker, trial)

    asyncio.run(asyncio.wait_for(run(), 60))


async def connect(broker: Broker, context: ssl.SSLContext, listener: str = "SSL") -> RawClient:
    port = broker.ports[listener]
    return RawClient(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


async def is_served(client: RawClient) -> bool:
    answer: Any = await client.call(ApiKey.METADATA, 12, METADATA)
    return len(answer.brokers) == 1


def principals(broker: Broker) -> list[str]:
    return [each.session.principal for each in broker.server._clients.connections]


async def is_refused(broker: Broker, context: ssl.SSLContext) -> bool:
    """Whether the broker lets no request in. With TLS 1.3 a client learns of that when it reads."""
    try:
        client = await connect(broker, context)
        await client.call(ApiKey.METADATA, 12, METADATA)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return True
    return False


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes of a client."""
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


# -- certificates and principals ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_certificate_is_anonymous(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        context = trial.context()
        context.minimum_version = context.maximum_version = version
        client = await connect(broker, context)
        assert await is_served(client)
        assert principals(broker) == ["User:ANONYMOUS"]
        client.close()
        await until(lambda: not open_connections(broker))

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "User:CN=alice"),
        ({"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U,DEFAULT"}, "User:ALICE"),
        ({"listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/at-$1/"}, "User:at-alice"),
        ({"ottla.ssl.principal.spiffe": "true"}, "User:spiffe://example.org/alice"),
    ],
)
def test_a_certificate_names_the_principal(tmp_path: Path, settings: dict[str, str], expected: str) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        shown = trial.client("alice", "spiffe://example.org/alice")
        client = await connect(broker, trial.context(shown))
        assert await is_served(client)
        assert principals(broker) == [expected]

    play(tmp_path, story, {"ssl.client.auth": "required", **settings})


@pytest.mark.parametrize("wanted", ["required", "requested"])
def test_a_foreign_certificate_is_refused_and_others_are_served(tmp_path: Path, wanted: str) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        stranger = Trial.create(tmp_path / "stranger", "other CA").client("alice")
        assert await is_refused(broker, trial.context(stranger))
        assert await is_refused(broker, trial.context()) is (wanted == "required")
        assert await is_served(await connect(broker, trial.context(trial.client("alice"))))

    play(tmp_path, story, {"ssl.client.auth": wanted})


def test_a_certificate_that_no_rule_names_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        assert await is_refused(broker, trial.context(trial.client("alice")))
        assert "its certificate gives no principal" in caplog.text

    rules = {"ssl.principal.mapping.rules": "RULE:^CN=bob$/bob/"}
    play(tmp_path, story, {"ssl.client.auth": "required", **rules})


def test_a_login_names_the_principal_where_there_is_one(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        client = await connect(broker, trial.context(trial.client("certified")), "SASL_SSL")
        await client.call(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
        answer: Any = await client.call(ApiKey.SASL_AUTHENTICATE, 2, token)
        assert answer.error_code == 0
        assert await is_served(client)
        assert principals(broker) == ["User:alice"]

    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "listener.name.sasl_ssl.ssl.client.auth": "required",
    }
    play(tmp_path, story, settings, "SASL_SSL://127.0.0.1:0")


# -- protocols that don't fit --------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"\0\0\0\x1f\0\x12\0\4", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x02\x01", b"\0"])
def test_plaintext_at_a_tls_listener_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        client = RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))
        await client.send(sent)
        assert await client.closed_by_broker()
        assert "client=127.0.0.1 listener=SSL reason=it speaks no TLS" in caplog.text
        assert await is_served(await connect(broker, trial.context()))

    play(tmp_path, story)


def test_tls_at_a_plaintext_listener_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await connect(broker, trial.context(), "PLAINTEXT")
        assert "reason=it speaks TLS, and this listener does not" in caplog.text

    play(tmp_path, story, listeners="PLAINTEXT://127.0.0.1:0")


def test_an_old_version_is_refused_with_an_alert(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        context = trial.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            await connect(broker, context)
        assert "reason=TLS handshake failed: unsupported protocol" in caplog.text

    play(tmp_path, story, {"ssl.enabled.protocols": "TLSv1.3"})


def test_only_the_named_cipher_suites_are_served(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        context = trial.context()
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            await connect(broker, context)
        assert await is_served(await connect(broker, trial.context()))

    play(tmp_path, story, {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"})


# -- handshakes that don't end ------------------------------------------------------------------------------


def test_half_and_slow_handshakes_end_and_others_are_served_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_connection, "HANDSHAKE_SECONDS", 0.3)

    async def story(broker: Broker, trial: Trial) -> None:
        silent = RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))
        half = RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))
        hello = client_hello(trial.context())
        await half.send(hello[:-1])
        slow = RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))
        for byte in hello[:20]:
            await slow.send(bytes((byte,)))
        assert await is_served(await connect(broker, trial.context()))
        assert all(await asyncio.gather(*(each.closed_by_broker() for each in (silent, half, slow))))
        assert "TLS handshake not finished: 0.3 s are over" in caplog.text
        assert await is_served(await connect(broker, trial.context()))

    play(tmp_path, story)


def test_a_handshake_in_many_pieces_succeeds(tmp_path: Path) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trial.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(0)
                incoming.write(await reader.read(1 << 16))
        writer.write(outgoing.read())
        await until(lambda: not broker.server._handshakes.count)  # type: ignore[union-attr]
        writer.close()

    play(tmp_path, story)


def test_a_flood_of_half_handshakes_gives_way_to_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_connection, "MAX_HANDSHAKES", 3)
    monkeypatch.setattr(tls_connection, "PATIENCE_SECONDS", 0.05)

    async def story(broker: Broker, trial: Trial) -> None:
        idle = [RawClient(*await asyncio.open_connection("127.0.0.1", broker.port)) for _ in range(20)]
        assert await is_served(await connect(broker, trial.context()))
        await until(lambda: open_connections(broker) <= 4)
        for each in idle:
            each.close()

    play(tmp_path, story)


def test_a_renegotiation_is_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    """OpenSSL's own client, the only one here that can ask for it: `R` in a line."""

    async def story(broker: Broker, trial: Trial) -> None:
        asking = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{broker.port}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        assert asking.stdin is not None
        await until(lambda: principals(broker) and not broker.server._handshakes.count)  # type: ignore[union-attr]
        asking.stdin.write(b"R\n")
        asking.stdin.close()
        output, _ = await asking.communicate()
        assert b"RENEGOTIATING" in output
        assert b"no renegotiation" in output
        assert await is_served(await connect(broker, trial.context()))

    play(tmp_path, story)


def test_garbage_behind_the_handshake_ends_that_connection_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, trial: Trial) -> None:
        with socket.create_connection(("127.0.0.1", broker.port)) as plain:
            context = trial.context()
            secured = await asyncio.to_thread(
                lambda: context.wrap_socket(plain.dup(), server_hostname="localhost")
            )
            plain.sendall(b"\x17\x03\x03\0\x20" + b"x" * 32)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(lambda: secured.recv(1))
            secured.close()
        assert "reason=broken TLS" in caplog.text
        assert await is_served(await connect(broker, trial.context()))

    play(tmp_path, story)


# -- settings ------------------------------------------------------------------------------------------------


def test_stores_that_cant_be_used_stop_the_start_before_anything_is_written(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path / "certs")

    async def refusal(settings: dict[str, str]) -> str:
        with pytest.raises(StartError) as refused:
            async with running_broker(tmp_path / "data", {"listeners": "SSL://127.0.0.1:0", **settings}):
                pass
        assert not (tmp_path / "data").exists()
        return str(refused.value)

    async def run() -> None:
        assert "needs ssl.keystore.location" in await refusal({})
        assert "can't read /nowhere" in await refusal({"ssl.keystore.location": "/nowhere"})
        java = tmp_path / "broker.jks"
        java.write_bytes(b"\xfe\xed\xfe\xed rest")
        assert f"keytool -importkeystore -srckeystore {java}" in await refusal(
            {"ssl.keystore.location": str(java)}
        )
        wrong = tmp_path / "broker.p12"
        wrong.write_bytes(trial.node().pkcs12("broker", "right-password"))
        text = await refusal({"ssl.keystore.location": str(wrong), "ssl.keystore.password": "wrong-password"})
        assert "that this password opens" in text
        assert "wrong-password" not in text
        assert "need" in await refusal(
            {"ssl.keystore.location": str(trial.write("n", trial.node())), "ssl.client.auth": "required"}
        )

    asyncio.run(run())


def inline(trial: Trial) -> dict[str, str]:
    issued = trial.node()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_pem().decode(),
        "ssl.keystore.certificate.chain": issued.chain_pem().decode(),
        "ssl.truststore.certificates": trial.ca.read_text(),
    }


def in_one_line(trial: Trial) -> dict[str, str]:
    return {name: " ".join(text.split("\n")) for name, text in inline(trial).items()}


def encrypted(trial: Trial) -> dict[str, str]:
    issued = trial.node()
    return {
        **inline(trial),
        "ssl.keystore.key": issued.key_pem("key-secret").decode(),
        "ssl.keystore.certificate.chain": issued.chain_pem().decode(),
        "ssl.key.password": "key-secret",
    }


def pkcs12(trial: Trial) -> dict[str, str]:
    key_store, trust_store = trial.directory / "node.p12", trial.directory / "trust.p12"
    key_store.write_bytes(trial.node().pkcs12("node", "secret1"))
    trust_store.write_bytes(trial.authority.truststore("secret2"))
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(key_store),
        "ssl.keystore.password": "secret1",
        "ssl.key.password": "secret1",
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": "secret2",
    }


@pytest.mark.parametrize("make", [inline, in_one_line, encrypted, pkcs12])
def test_keys_are_read_in_every_form(tmp_path: Path, make: Callable[[Trial], dict[str, str]]) -> None:
    trial = Trial.create(tmp_path / "certs")

    async def run() -> None:
        values = {"listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required", **make(trial)}
        async with running_broker(tmp_path / "data", values) as broker:
            assert await is_served(await connect(broker, trial.context(trial.client("alice"))))
            assert await is_refused(broker, trial.context())

    asyncio.run(asyncio.wait_for(run(), 60))


def test_no_password_and_no_key_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    trial = Trial.create(tmp_path / "certs")

    async def run() -> None:
        values = {"listeners": "SSL://127.0.0.1:0", **pkcs12(trial), "ssl.keystore.password": "secret3"}
        with pytest.raises(StartError) as refused:
            async with running_broker(tmp_path / "data", values):
                pass
        assert "secret" not in str(refused.value) + caplog.text

    asyncio.run(run())
