"""Assertions for tokens: what is in them, what is sent for them, and what can't be used."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from ottla.security.token_assertions import AssertionFile, AssertionGrant, SignedAssertion
from ottla.security.token_source import TokenUnavailable
from support.identity_provider import IdentityProvider, served

PROVIDER = IdentityProvider()
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())


def written(directory: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: str = "") -> Path:
    """The key in a file of PKCS#8, as Java reads it."""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    path = directory / "key.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return path


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", RSA), ("ES256", EC)])
@pytest.mark.parametrize("password", ["", "kn0cknock"])
def test_an_assertion_is_signed_by_the_key_and_has_the_claims(
    tmp_path: Path, algorithm: str, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: str
) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        '{"header": {"kid": "7", "alg": "none"}, "payload": {"sub": "of the file", "exp": 1}}'
    )
    assertion = SignedAssertion(
        written(tmp_path, key, password),
        algorithm,
        password or None,
        (("aud", "idp"), ("iss", "me"), ("sub", "of the settings")),
        lifetime_seconds=100,
        backdated_seconds=7,
        has_id=True,
        template=template,
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    read = (RSAKey if algorithm == "RS256" else ECKey).import_key(public)
    first, second = (jwt.decode(assertion.text(), read, algorithms=[algorithm]) for _ in range(2))
    assert first.header == {"alg": algorithm, "typ": "JWT", "kid": "7"}
    claims = first.claims
    assert {name: claims[name] for name in ("aud", "iss", "sub")} == {
        "aud": "idp",
        "iss": "me",
        "sub": "of the file",
    }
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (100, 7)
    assert abs(claims["iat"] - time.time()) < 60
    assert claims["jti"] != second.claims["jti"]
    assert "kn0cknock" not in repr(assertion)


def test_the_grant_is_the_assertion_or_has_it_for_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("a.b.c\n")
    with served(PROVIDER) as server:
        for replaces_secret, client_id in ((False, None), (True, None), (True, "me")):
            grant = AssertionGrant(
                server.token_url, AssertionFile(file), replaces_secret, client_id, scope="read write"
            )
            assert grant.fetch().count(".") == 2
        forms = [{name: value for name, (value,) in parse_qs(form).items()} for form in server.forms]
    common = {"scope": "read write"}
    by_assertion = {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "a.b.c",
        **common,
    }
    assert forms == [
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "a.b.c", **common},
        by_assertion,
        {**by_assertion, "client_id": "me"},
    ]
    assert server.authorizations == [""] * 3


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("", "it is no JSON"),
        ("[]", "it is no JSON"),
        ('{"header": []}', None),
        ('{"header": [1]}', "it is no JSON"),
        ('{"payload": "x"}', "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("{}", None),
        ("x" * (2 << 20), "larger than"),
    ],
)
def test_a_template_that_is_none_is_told(tmp_path: Path, template: str, problem: str | None) -> None:
    file = tmp_path / "template.json"
    file.write_text(template)
    assertion = SignedAssertion(written(tmp_path, RSA), template=file)
    if problem is None:
        assertion.text()
        return
    with pytest.raises(TokenUnavailable, match=problem):
        assertion.text()


def test_a_key_that_cannot_be_used_is_told_without_its_text(tmp_path: Path) -> None:
    curve, locked = written(tmp_path, EC), tmp_path / "locked"
    locked.mkdir()
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for assertion in (
        SignedAssertion(curve, "RS256"),
        SignedAssertion(written(locked, RSA, "kn0cknock"), key_password="wr0ng"),
        SignedAssertion(empty),
        SignedAssertion(tmp_path / "missing"),
    ):
        with pytest.raises(TokenUnavailable) as told:
            assertion.text()
        assert str(assertion.key) in str(told.value)
        assert "wr0ng" not in str(told.value)
        assert "PRIVATE" not in str(told.value)


def test_an_assertion_in_a_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    assertion = AssertionFile(file)
    with pytest.raises(TokenUnavailable):
        assertion.text()
    for text in ("a.b.c", "d.e.f"):
        file.write_text(text)
        assert assertion.text() == text
    file.write_text(json.dumps({"not": "an assertion"}))
    with pytest.raises(TokenUnavailable, match="no token"):
        assertion.text()
