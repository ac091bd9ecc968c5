"""`ottla certs`: the files that it makes, for whom they are readable, and that it overwrites nothing."""

from __future__ import annotations

import json
import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.cli.main import main
from ottla.config.java_properties import parse_properties


def create(directory: Path, *words: str) -> int:
    return main(["certs", "create", "--dir", str(directory), *words])


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert all(end.version() for end in ends)
    assert ends[1].getpeercert(binary_form=True) is not None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "kafka-1.example.org", "10.1.2.3"])
def test_nodes_and_clients_trust_each_other(tmp_path: Path, host: str) -> None:
    made = tmp_path / "made"
    assert (
        create(made, "--node", "n", "--client", "c", "--host", "kafka-1.example.org", "--host", "10.1.2.3")
        == 0
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made / "ca.pem"))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(made / "n.pem")
    client = ssl.create_default_context(cafile=str(made / "ca.pem"))
    client.load_cert_chain(made / "c.pem")
    shaken(server, client, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server, client, "elsewhere.example.org")


def test_a_clients_certificate_is_no_nodes(tmp_path: Path) -> None:
    assert create(tmp_path / "made", "--client", "c") == 0
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / "made" / "c.pem")
    client = ssl.create_default_context(cafile=str(tmp_path / "made" / "ca.pem"))
    client.check_hostname = False
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shaken(server, client, "localhost")


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        assert create(tmp_path / "made", "--client", "alice") == 0
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()}
    assert set(modes.values()) == {0o600}
    endings = ("pem", "p12", "truststore.p12", "properties")
    assert modes.keys() == {"ca.pem", "ca-key.pem", *(f"alice.{each}" for each in endings)}


def test_a_second_call_signs_with_the_same_authority_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"
    assert create(made) == 0
    before = {path: path.read_bytes() for path in made.iterdir()}
    assert create(made, "--client", "alice", "--node", "broker") == 1
    assert "broker.pem exists, and nothing is overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in made.iterdir()} == before
    assert create(made, "--client", "alice") == 0
    assert before.items() <= {path: path.read_bytes() for path in made.iterdir()}.items()
    authority = x509.load_pem_x509_certificate((made / "ca.pem").read_bytes())
    x509.load_pem_x509_certificate((made / "alice.pem").read_bytes()).verify_directly_issued_by(authority)


def test_what_a_kill_has_left_half_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    assert create(made, "--client", "alice") == 0
    (made / "ca.pem").unlink()  # killed behind the authority's key: the certificate is written again
    (made / "alice.properties").unlink()
    assert create(made, "--client", "alice") == 1
    assert "alice.pem exists" in capsys.readouterr().err
    assert create(made, "--client", "bob") == 0
    assert (made / "ca.pem").exists()
    (made / "ca-key.pem").write_text("not a key")
    assert create(made, "--client", "carol") == 1
    assert "ca-key.pem is no authority" in capsys.readouterr().err


def test_the_settings_name_the_files_and_their_password(tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert create(made, "--node", "n", "--password", "chosen-one") == 0
    text = (made / "n.properties").read_text()
    settings = {name: each.value for name, each in parse_properties(text).items()}
    store = Path(settings["ssl.keystore.location"]).read_bytes()
    found = pkcs12.load_pkcs12(store, settings["ssl.keystore.password"].encode())
    assert settings["ssl.keystore.password"] == "chosen-one"
    assert found.key is not None and len(found.additional_certs) == 1
    trusted = Path(settings["ssl.truststore.location"]).read_bytes()
    assert pkcs12.load_pkcs12(trusted, b"chosen-one").additional_certs


@pytest.mark.parametrize(
    "words",
    [
        ("--client", "../alice"), ("--client", ""), ("--node", "ca"), ("--host", "a b"), ("--host", ""),
        ("--client", "a", "--node", "a"), ("--days", "0"), ("--days", "900"),
    ],
)  # fmt: skip
def test_names_that_are_none_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert create(tmp_path / "made", *words) == 2
    assert not (tmp_path / "made").exists()


def test_a_certificate_is_shown_as_a_broker_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert create(tmp_path, "--node", "n-1", "--host", "k.example.org") == 0
    capsys.readouterr()
    assert main(["certs", "show", str(tmp_path / "n-1.pem"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["principal"] == "User:CN=n-1"
    assert "DNSName: k.example.org" in shown["names"]
    assert main(["certs", "show", str(tmp_path / "n-1.properties")]) == 1
    assert main(["certs", "show", str(tmp_path / "none.pem")]) == 1
    errors = capsys.readouterr().err
    assert "has no certificate in PEM" in errors and "can't read" in errors
