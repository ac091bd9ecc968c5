"""librdkafka's options in the words of Java's client."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.errors import ClientOptionError
from ottla.client.java_options import java_client_options


def test_names_and_values_that_differ_are_translated() -> None:
    assert java_client_options(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "al\\ice",
            "sasl.password": 's"cret',
            "ssl.endpoint.identification.algorithm": "none",
            "fetch.wait.max.ms": "50",
            "client.id": "mine",
            "log_level": "0",
        }
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="al\\\\ice" password="s\\"cret";',
        "ssl.endpoint.identification.algorithm": "",
        "fetch.max.wait.ms": "50",
        "client.id": "mine",
    }


def test_files_of_certificates_go_over_as_text(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN CERTIFICATE-----\nca")
    (tmp_path / "certificate").write_text("-----BEGIN CERTIFICATE-----\nmine")
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----\nkey")
    options = java_client_options(
        {
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "certificate"),
            "ssl.key.location": str(tmp_path / "key"),
        }
    )
    assert options == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nca",
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\nmine",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nkey",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue.buffering.max.ms": "5"}, "queue.buffering.max.ms has no counterpart"),
        ({"ssl.ca.location": "/nowhere"}, "ssl.ca.location: cannot read /nowhere"),
        ({"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"}, "PKCS#8"),
        ({"enable.ssl.certificate.verification": "false"}, "no counterpart"),
        ({"sasl.username": "a", "sasl.password": "b", "sasl.mechanism": "GSSAPI"}, "not GSSAPI"),
        ({"sasl.username": "a", "sasl.mechanism": "PLAIN"}, "go together"),
    ],
)
def test_what_java_cannot_be_told_is_an_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(ClientOptionError, match=message):
        java_client_options(options)
