"""Stores of keys and certificates: every form that Kafka takes, Java's own tools' files, and damage."""

from __future__ import annotations

import random
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ottla.security import key_stores
from ottla.security.key_stores import KeyStoreError, Store, read_authorities, read_identity
from ottla.security.server_tls import ClientAuthentication, ServerTls
from support.servers.tls_trial import Trial

needs_keytool = pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no keytool")


def keytool(*words: str) -> None:
    subprocess.run(["keytool", *words], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def java_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores as Java's keytool makes them: PKCS12 with a key, PKCS12 of trust, JKS."""
    directory = tmp_path_factory.mktemp("java")
    given = ("-storepass", "changeit", "-keypass", "changeit", "-alias", "broker")
    key = ("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=localhost", *given)
    keytool(*key, "-storetype", "PKCS12", "-keystore", str(directory / "key.p12"))
    keytool(*key, "-storetype", "JKS", "-keystore", str(directory / "old.jks"))
    keytool(
        "-exportcert",
        "-rfc",
        "-keystore",
        str(directory / "key.p12"),
        "-file",
        str(directory / "c.pem"),
        *given[:2],
        *given[4:],
    )
    keytool(
        "-importcert",
        "-noprompt",
        "-storetype",
        "PKCS12",
        "-keystore",
        str(directory / "trust.p12"),
        "-file",
        str(directory / "c.pem"),
        *given[:2],
        *given[4:],
    )
    return directory


@needs_keytool
def test_stores_of_javas_own_tool_are_read(java_stores: Path) -> None:
    identity = read_identity(Store(str(java_stores / "key.p12"), "changeit"))
    trusted = read_authorities(Store(str(java_stores / "trust.p12"), "changeit"))
    assert b"PRIVATE KEY" in identity.pem
    assert trusted.encode() in identity.pem


@needs_keytool
def test_the_command_that_converts_jks_does_so(java_stores: Path) -> None:
    store = java_stores / "old.jks"
    with pytest.raises(KeyStoreError) as refused:
        read_identity(Store(str(store), "changeit"))
    command = str(refused.value).split("`")[1]
    done = subprocess.run(
        [*command.split(), "-srcstorepass", "changeit", "-deststorepass", "changeit"],
        cwd=java_stores, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (converted,) = [word for word in command.split() if word.endswith(".p12")]
    assert b"PRIVATE KEY" in read_identity(Store(converted, "changeit")).pem


@pytest.mark.parametrize("kind", ["pkcs12", "pem"])
def test_damaged_stores_are_refused_in_a_line(tmp_path: Path, kind: str) -> None:
    """Bytes changed or cut at random: an error that names the file, or a store that still works."""
    draw = random.Random(20)
    issued = Trial.create(tmp_path).node()
    whole = issued.pkcs12("node", "secret") if kind == "pkcs12" else issued.pem()
    path = tmp_path / "store"
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.randint(0, len(data))] if draw.random() < 0.3 else data)
        try:
            ServerTls(Store(str(path), "secret")).context()
        except KeyStoreError as problem:
            refused += 1
            assert str(path) in str(problem) and "\n" not in str(problem)
    assert refused > 50


def test_a_large_file_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_stores, "MAX_STORE_BYTES", 10)
    path = tmp_path / "store"
    path.write_bytes(bytes(11))
    with pytest.raises(KeyStoreError, match="larger than 10 bytes"):
        read_authorities(Store(str(path)))


def test_a_store_given_twice_is_refused() -> None:
    with pytest.raises(KeyStoreError, match="are both given"):
        read_identity(Store("/a.pem", certificates="x", key="y"))
    with pytest.raises(KeyStoreError, match="are both given"):
        read_authorities(Store("/a.pem", certificates="x"))
    with pytest.raises(KeyStoreError, match="go together"):
        read_identity(Store(key="y"))


def test_passwords_and_keys_are_not_printed(tmp_path: Path) -> None:
    issued = Trial.create(tmp_path).node()
    store = Store(None, "secret-1", issued.chain_pem().decode(), issued.key_pem().decode(), "secret-2")
    text = str(store) + str(read_identity(store))
    assert "secret-1" not in text and "secret-2" not in text and "PRIVATE" not in text


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_suites_by_javas_names(tmp_path: Path, java: str, openssl: str) -> None:
    trial = Trial.create(tmp_path)
    context = ServerTls(Store(str(trial.write("node", trial.node()))), cipher_suites=(java,)).context()
    assert openssl in {each["name"] for each in context.get_ciphers()}
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_contexts_refuse_renegotiation_and_ask_as_they_are_told(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path)
    identity, trusted = Store(str(trial.write("node", trial.node()))), Store(str(trial.ca))
    wanted = {
        ClientAuthentication.NONE: ssl.CERT_NONE,
        ClientAuthentication.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuthentication.REQUIRED: ssl.CERT_REQUIRED,
    }
    for authentication, mode in wanted.items():
        context = ServerTls(identity, trusted, authentication).context()
        assert context.verify_mode == mode
        assert context.options & ssl.OP_NO_RENEGOTIATION
    towards = ServerTls(identity, trusted).peer_context(checks_host=False)
    assert (towards.verify_mode, towards.check_hostname) == (ssl.CERT_REQUIRED, False)
