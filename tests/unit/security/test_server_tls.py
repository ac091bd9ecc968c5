"""The TLS of servers, made of every kind of store: handshakes, versions, suites, and refusals in a line."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)

from ottla.security.key_stores import KeyStoreError, Store, read_authorities, read_identity
from ottla.security.server_tls import ClientAuthentication, ServerTls
from support.servers.certificates import KEY_PASSWORD, Authority, Identity


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"), "authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    return authority.identity("server")


def in_pkcs12(path: Path, authority: Authority, identity: Identity, password: bytes) -> str:
    made = pkcs12.serialize_key_and_certificates(
        b"server",
        load_pem_private_key(identity.key.encode(), None),  # type: ignore[arg-type]
        x509.load_pem_x509_certificate(identity.certificate.encode()),
        [x509.load_pem_x509_certificate(authority.pem.encode())],
        BestAvailableEncryption(password),
    )
    path.write_bytes(made)
    return str(path)


def shaken(tls: ServerTls, client: ssl.SSLContext) -> str | None:
    """The version of TLS that a handshake ends with; raises the client's error."""
    context = tls.context()
    ours, theirs = socket.socketpair()
    failure: list[Exception] = []

    def serve() -> None:
        try:
            with context.wrap_socket(ours, server_side=True) as wrapped:
                wrapped.sendall(b"x")
        except OSError as problem:
            failure.append(problem)
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        theirs.settimeout(20)
        with client.wrap_socket(theirs, server_hostname="broker.test") as wrapped:
            assert wrapped.recv(1) == b"x"
            return wrapped.version()
    finally:
        theirs.close()
        thread.join()


def trusting(
    authority: Authority, identity: Identity | None = None, directory: Path | None = None
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if identity is not None and directory is not None:
        path = directory / "client.pem"
        path.write_text(identity.key + identity.certificate)
        context.load_cert_chain(path)
    return context


def stores(directory: Path, authority: Authority, server: Identity) -> dict[str, Store]:
    pem, encrypted = directory / "server.pem", directory / "encrypted.pem"
    pem.write_text(server.certificate + server.key)
    encrypted.write_text(server.encrypted_key + server.certificate)
    return {
        "PEM": Store(str(pem)),
        "PEM with a password": Store(str(encrypted), key_password=KEY_PASSWORD),
        "inline": Store(certificates=server.certificate, key=server.key),
        "inline, in one line, with a password": Store(
            certificates=server.certificate.replace("\n", "\\n"),
            key=server.encrypted_key.replace("\n", "\\n"),
            key_password=KEY_PASSWORD,
        ),
        "PKCS12": Store(in_pkcs12(directory / "server.p12", authority, server, b"store"), "store"),
    }


def test_every_kind_of_store_serves_tls(tmp_path: Path, authority: Authority, server: Identity) -> None:
    for name, store in stores(tmp_path, authority, server).items():
        assert shaken(ServerTls(store), trusting(authority)) == "TLSv1.3", name
        assert "PRIVATE" not in repr(store) and KEY_PASSWORD not in repr(read_identity(store))


def test_authorities_of_every_kind_check_clients(
    tmp_path: Path, authority: Authority, server: Identity
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.pem)
    of_pkcs12 = in_pkcs12(tmp_path / "trust.p12", authority, server, b"store")
    identity = stores(tmp_path, authority, server)["PEM"]
    foreign = Authority(tmp_path, "another").identity("client")
    for store in (Store(str(ca)), Store(certificates=authority.pem), Store(of_pkcs12, "store")):
        assert "BEGIN CERTIFICATE" in read_authorities(store)
        tls = ServerTls(identity, store, ClientAuthentication.REQUIRED)
        assert shaken(tls, trusting(authority, authority.identity("client"), tmp_path)) == "TLSv1.3"
        for client in (trusting(authority), trusting(authority, foreign, tmp_path)):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                shaken(tls, client)
    requested = ServerTls(identity, Store(str(ca)), ClientAuthentication.REQUESTED)
    assert shaken(requested, trusting(authority)) == "TLSv1.3"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shaken(requested, trusting(authority, foreign, tmp_path))


def test_versions_and_suites_are_those_that_are_given(
    tmp_path: Path, authority: Authority, server: Identity
) -> None:
    store = stores(tmp_path, authority, server)["PEM"]
    assert shaken(ServerTls(store, protocols=("TLSv1.2",)), trusting(authority)) == "TLSv1.2"
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256")
    tls = ServerTls(store, cipher_suites=suites)
    assert shaken(tls, trusting(authority)) == "TLSv1.2"
    allowed = {each["name"] for each in tls.context().get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert allowed == {"ECDHE-ECDSA-AES128-GCM-SHA256", "AES128-SHA256"}
    new = ServerTls(store, protocols=("TLSv1.3",)).context()
    assert new.minimum_version is ssl.TLSVersion.TLSv1_3
    assert ServerTls(store).context().options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"protocols": ("SSLv3",)}, "TLSv1.3, not SSLv3"),
        ({"protocols": ()}, "ssl.enabled.protocols"),
        ({"cipher_suites": ("TLS_NO_SUCH_THING",)}, "OpenSSL knows none"),
        ({"cipher_suites": ("TLS_AES_256_GCM_SHA384",)}, "can only be had together"),
        ({"client_authentication": ClientAuthentication.REQUIRED}, "ssl.truststore.location"),
    ],
)
def test_what_can_t_be_had_is_told(
    change: dict[str, object], told: str, tmp_path: Path, authority: Authority, server: Identity
) -> None:
    store = stores(tmp_path, authority, server)["PEM"]
    with pytest.raises(KeyStoreError, match=told):
        ServerTls(store, **change).context()  # type: ignore[arg-type]


def test_a_store_that_can_t_be_read_is_told_without_its_password(
    tmp_path: Path, authority: Authority, server: Identity
) -> None:
    made = stores(tmp_path, authority, server)
    jks = tmp_path / "keys.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"what")
    ca = tmp_path / "only.pem"
    ca.write_text(authority.pem)
    other = authority.identity("other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(other.key + server.certificate)
    for store, told in (
        (Store(str(tmp_path / "none.pem")), "can't read .*none.pem: No such file"),
        (
            Store(str(jks), "hush"),
            r"keytool -importkeystore .*keys.jks -destkeystore .*keys.p12",
        ),
        (Store(str(nothing), "hush"), "neither PEM nor a PKCS12"),
        (Store(made["PKCS12"].location, "hush"), "that this password opens"),
        (Store(made["PKCS12"].location), "that this password opens"),
        (Store(made["PEM with a password"].location, key_password="hush"), "key can't be used"),
        (Store(made["PEM with a password"].location), "key can't be used"),
        (Store(str(ca)), "has certificates and no private key"),
        (Store(str(mixed)), "key can't be used"),
        (Store(certificates=server.certificate), "go together"),
        (Store(), "TLS needs ssl.keystore.location"),
    ):
        with pytest.raises(KeyStoreError, match=told) as refused:
            ServerTls(store).context()
        assert "hush" not in str(refused.value) and "\n" not in str(refused.value)
