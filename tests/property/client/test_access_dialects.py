"""One description of a cluster, said to four clients: they trust, show and say the same."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from support.servers.certificates import KEY_PASSWORD, Authority, Identity

BOOTSTRAP = "127.0.0.1:1"
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM": "scram.ScramLoginModule"}


@dataclass(frozen=True, slots=True)
class Given:
    """Settings, and what they mean."""

    properties: Mapping[str, str]
    protocol: str
    mechanism: str
    user: str
    password: str
    shows_certificate: bool
    checks_names: bool


@dataclass(frozen=True, slots=True)
class Certificates:
    authority: Authority
    stranger: Authority
    server: Identity
    forged: Identity
    client: Identity


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(directory, "authority"), Authority(directory, "stranger")
    made = Certificates(
        authority,
        stranger,
        authority.identity("server"),
        stranger.identity("server"),
        authority.identity("client"),
    )
    for identity, name in ((made.server, "server"), (made.forged, "forged")):
        (directory / name).write_text(identity.certificate + identity.key)
    return made


texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)


@st.composite
def pem(draw: st.DrawFn, directory: Path, name: str, text: str) -> dict[str, str]:
    """A text as it is, or in a file."""
    if draw(st.booleans()):
        return {f"{name}.pem": text}
    path = directory / f"{name}-{abs(hash(text))}"
    path.write_text(text)
    return {f"{name}.location": str(path)}


@st.composite
def securities(draw: st.DrawFn, made: Certificates) -> Given:
    directory = made.authority.directory
    protocol = draw(st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]))
    properties = {"security.protocol": draw(st.sampled_from([protocol, protocol.lower()]))}
    if protocol == "PLAINTEXT" and draw(st.booleans()):
        properties = {}
    mechanism = draw(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]))
    user, password = draw(texts), draw(texts)
    if protocol.startswith("SASL_"):
        other = draw(st.sampled_from([None, "PLAIN", "SCRAM-SHA-256"]))
        spellings = draw(st.permutations(["sasl.mechanism", "sasl.mechanisms"]))
        if other is not None:
            properties[spellings[0]] = other
        properties |= {spellings[1]: mechanism, "sasl.username": user, "sasl.password": password}
    shows_certificate, checks_names = draw(st.booleans()), True
    if protocol.endswith("SSL"):
        properties |= draw(pem(directory, "ssl.ca", made.authority.pem))
        check = draw(st.sampled_from([None, "https", "none"]))
        checks_names = check != "none"
        if check is not None:
            properties["ssl.endpoint.identification.algorithm"] = check
        if shows_certificate:
            properties |= draw(pem(directory, "ssl.certificate", made.client.certificate))
            encrypted = draw(st.booleans())
            key = made.client.encrypted_key if encrypted else made.client.key
            properties |= draw(pem(directory, "ssl.key", key))
            if encrypted:
                properties["ssl.key.password"] = KEY_PASSWORD
    return Given(properties, protocol, mechanism, user, password, shows_certificate, checks_names)


def read(properties: Mapping[str, str], name: str) -> str:
    text = properties.get(f"{name}.pem")
    return Path(properties[f"{name}.location"]).read_text() if text is None else text


def shaken(client: ssl.SSLContext, host: str, directory: Path, server_name: str) -> str | None:
    """Shake hands with a server in memory; the common name of the certificate that the client shows.

    Raises SSLError as the client does.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / server_name)
    server.load_verify_locations(directory / "authority")
    server.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = theirs.getpeercert()
    return dict(part[0] for part in certificate["subject"])["commonName"] if certificate else None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_four_clients_are_told_the_same(certificates: Certificates, data: st.DataObject) -> None:
    drawn = data.draw(securities(certificates))
    client_id = data.draw(st.sampled_from([None, "mine"]))
    access = ClusterAccess(BOOTSTRAP, drawn.properties, client_id, data.draw(st.sampled_from([None, 4_000])))

    for_librdkafka = access.librdkafka({"log_level": 0})
    Producer(for_librdkafka)  # knows every name, takes every certificate and key
    assert for_librdkafka.get("client.id") == client_id

    java = access.java()
    assert access.spark() == {f"kafka.{name}": value for name, value in java.items()}
    assert java.get("client.id") == client_id
    assert java.get("security.protocol", "PLAINTEXT") == drawn.protocol
    aiokafka = access.aiokafka()
    assert aiokafka["security_protocol"] == drawn.protocol
    assert aiokafka.get("client_id") == client_id
    timeouts = for_librdkafka.get("socket.timeout.ms"), aiokafka.get("request_timeout_ms")
    assert timeouts in ((None, None), (4_000, 4_000))
    assert java.get("request.timeout.ms") == (None if timeouts[0] is None else "4000")

    if drawn.protocol.startswith("SASL_"):
        assert java["sasl.mechanism"] == aiokafka["sasl_mechanism"] == drawn.mechanism
        assert (aiokafka["sasl_plain_username"], aiokafka["sasl_plain_password"]) == (
            drawn.user,
            drawn.password,
        )
        jaas = java["sasl.jaas.config"]
        assert MODULES[drawn.mechanism.partition("-")[0]] in jaas
        assert quoted(drawn.user) in jaas and quoted(drawn.password) in jaas
    if drawn.protocol.endswith("SSL"):
        assert java["ssl.truststore.certificates"] == read(drawn.properties, "ssl.ca")
        java_checks = java.get("ssl.endpoint.identification.algorithm", "https") == "https"
        assert java_checks == drawn.checks_names
        shown = java.get("ssl.keystore.certificate.chain")
        assert (shown == certificates.client.certificate) == drawn.shows_certificate
        if drawn.shows_certificate:
            assert java["ssl.keystore.key"] == read(drawn.properties, "ssl.key")
            assert java.get("ssl.key.password") == drawn.properties.get("ssl.key.password")
        said_by_aiokafka(aiokafka["ssl_context"], drawn, certificates)
    else:
        assert "ssl_context" not in aiokafka


def said_by_aiokafka(context: ssl.SSLContext, drawn: Given, certificates: Certificates) -> None:
    directory = certificates.authority.directory
    (directory / "authority").write_text(certificates.authority.pem)
    name = "client" if drawn.shows_certificate else None
    assert shaken(context, "broker.test", directory, "server") == name
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, "broker.test", directory, "forged")
    if drawn.checks_names:
        with pytest.raises(ssl.SSLCertVerificationError):
            shaken(context, "another.test", directory, "server")
    else:
        assert shaken(context, "another.test", directory, "server") == name


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_certificate_that_need_not_be_verified_is_taken(certificates: Certificates) -> None:
    properties = {
        "security.protocol": "ssl",
        "ssl.ca.pem": certificates.authority.pem,
        "enable.ssl.certificate.verification": "false",
    }
    (certificates.authority.directory / "authority").write_text(certificates.authority.pem)
    context = ClusterAccess(BOOTSTRAP, properties).aiokafka()["ssl_context"]
    assert shaken(context, "another.test", certificates.authority.directory, "forged") is None


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "me", "sasl.password": "secret"},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.username": "me",
            "sasl.password": "secret",
        },
    ],
)
def test_security_settings_that_aiokafka_cannot_use_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ClientOptionError, match=r"sasl\.|security\.protocol"):
        ClusterAccess(BOOTSTRAP, properties).aiokafka()


hosts = st.sampled_from(["a", "broker-1.test", "10.0.0.7", "[::1]", "a_b"])


@given(st.lists(st.tuples(hosts, st.integers(1, 65_535) | st.none()), min_size=1, max_size=4), st.data())
def test_four_clients_are_told_the_same_servers(
    servers: list[tuple[str, int | None]], data: st.DataObject
) -> None:
    prefixes = st.sampled_from(["", "PLAINTEXT://", " SASL_SSL://"])
    drawn = [data.draw(prefixes) for _ in servers]
    texts = [
        before + host + ("" if port is None else f":{port}")
        for before, (host, port) in zip(drawn, servers, strict=True)
    ]
    access = ClusterAccess(",".join(texts) + data.draw(st.sampled_from(["", ",", " "])))
    if any(before != " SASL_SSL://" for before in drawn):  # else no server is of the clients' protocol
        servers = [each for before, each in zip(drawn, servers, strict=True) if before != " SASL_SSL://"]
    wanted = [f"{host}:{port or 9092}" for host, port in servers]
    assert access.librdkafka()["bootstrap.servers"] == ",".join(wanted)
    assert access.java()["bootstrap.servers"] == ",".join(wanted)
    assert access.aiokafka()["bootstrap_servers"] == wanted
    assert [(host, port) for host, port in access.addresses()] == [
        (host.strip("[]"), port or 9092) for host, port in servers
    ]


@pytest.mark.parametrize("bootstrap", ["", ",", "a:b", "a:1:2", "::1", "a:65536", "a b:1", "http://a:1/x"])
def test_bootstrap_servers_that_are_no_addresses_are_refused(bootstrap: str) -> None:
    with pytest.raises(ClientOptionError, match="HOST:PORT"):
        ClusterAccess(bootstrap).addresses()


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.ca.location": "/nowhere"},
        {"ssl.ca.pem": "no certificate"},
        {"ssl.certificate.location": "/nowhere"},
        {"ssl.certificate.pem": "no certificate", "ssl.key.pem": "no key"},
    ],
)
def test_certificates_that_cannot_be_read_are_named(properties: dict[str, str]) -> None:
    named = "/nowhere" if "/nowhere" in properties.values() else "ssl"
    with pytest.raises(ClientOptionError, match=named):
        ClusterAccess(BOOTSTRAP, {"security.protocol": "SSL", **properties}).aiokafka()


def test_the_name_and_properties_given_last_win() -> None:
    access = ClusterAccess(BOOTSTRAP, {"client.id": "a", "log_level": "3"})
    assert access.aiokafka()["client_id"] == "a"
    assert access.with_client_id("b").librdkafka()["client.id"] == "b"
    assert access.with_client_id("b").java()["client.id"] == "b"
    assert access.with_properties({"log_level": "0"}).librdkafka({"client.id": "c"}) == {
        "bootstrap.servers": BOOTSTRAP,
        "client.id": "c",
        "log_level": "0",
    }
