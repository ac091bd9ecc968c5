"""Bearer tokens: the good ones, and all that only look like them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from ottla.security.bearer_tokens import BadToken, TokenKeys, TokenRules, UnknownKey, UnusableKeys, check
from ottla.security.key_set_source import KeySetSource, KeysUnreachable
from support.web.identity_provider import AUDIENCE, ISSUER, IdentityProvider

RULES = TokenRules(ISSUER, frozenset((AUDIENCE,)))


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    yield made
    made.close()


@pytest.fixture(scope="module")
def keys(provider: IdentityProvider) -> TokenKeys:
    return TokenKeys.parse(provider.key_set())


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_good_token_names_its_holder(algorithm: str, provider: IdentityProvider, keys: TokenKeys) -> None:
    holder = check(provider.token(algorithm), keys, RULES, time.time())
    assert (holder.name, holder.roles) == ("alice", {"developer"})


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"exp": None}, "has no end"),
        ({"exp": 1}, "has expired"),
        ({"exp": int(time.time()) - 31}, "has expired"),
        ({"exp": "tomorrow"}, "exp is no time"),
        ({"exp": 1e300}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"iat": int(time.time()) + 36000}, "its end .exp. before its beginning"),
        ({"nbf": int(time.time()) + 20, "exp": int(time.time()) + 10}, "before its beginning"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "others"}, "another audience"),
        ({"aud": ["others", 7]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": None}, "has no sub"),
        ({"sub": ""}, "has no sub"),
        ({"sub": 7}, "has no sub"),
    ],
)
def test_claims_that_are_not_good_are_refused(
    claims: dict[str, Any], told: str, provider: IdentityProvider, keys: TokenKeys
) -> None:
    with pytest.raises(BadToken, match=told):
        check(provider.token(**claims), keys, RULES, time.time())


def test_clocks_may_differ_a_little(provider: IdentityProvider, keys: TokenKeys) -> None:
    now = int(time.time())
    check(provider.token(exp=now - 20, iat=now - 100), keys, RULES, now)
    check(provider.token(nbf=now + 20, iat=now + 20), keys, RULES, now)
    check(provider.token(iat=now + 100), keys, RULES, now)  # as Apache Kafka takes it


def test_names_and_roles_come_from_the_claims_that_are_named(
    provider: IdentityProvider, keys: TokenKeys
) -> None:
    token = provider.token(
        azp="client", realm_access={"roles": ["a", "b", 3]}, scope="x y", **{"a.b": ["dotted"]}
    )
    for claim, roles in (
        ("realm_access.roles", {"a", "b"}),
        ("scope", {"x", "y"}),
        ("a.b", {"dotted"}),
        ("none.there", set()),
        ("sub.x", set()),
    ):
        rules = TokenRules(subject_claim="azp", roles_claim=claim)
        holder = check(token, keys, rules, time.time())
        assert (holder.name, holder.roles) == ("client", roles)


def signed(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    both = part(header) + b"." + part(claims)
    mac = b"" if secret is None else hmac.new(secret, both, hashlib.sha256).digest()
    return (both + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def test_tokens_that_nobody_signed_with_a_private_key_are_refused(
    provider: IdentityProvider, keys: TokenKeys
) -> None:
    claims = {"sub": "admin", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600}
    public = provider.keys["RS256"].as_pem(private=False)
    jwk = provider.keys["RS256"].as_dict(private=False)
    mine = RSAKey.generate_key(2048, {"kid": "rsa"})
    forged = jwt.encode({"alg": "RS256", "kid": "rsa"}, claims, mine, algorithms=["RS256"])
    own_key = {"alg": "RS256", "kid": "rsa", "jwk": mine.as_dict(private=False)}
    tokens = [
        *(signed({"alg": name}, claims, None) for name in ("none", "None", "NONE", "nOnE")),
        signed({"alg": "none", "kid": "rsa"}, claims, None),
        signed({"alg": "HS256", "kid": "rsa"}, claims, public),
        signed({"alg": "HS256", "kid": "rsa"}, claims, json.dumps(jwk).encode()),
        signed({"alg": "HS256"}, claims, jwk["n"].encode()),
        signed({"alg": "RS256", "kid": "rsa"}, claims, public),
        forged,
        jwt.encode(own_key, claims, mine, algorithms=["RS256"]),
        signed({"alg": "RS256", "kid": "ec"}, claims, public),
        signed({"alg": ["RS256"], "kid": "rsa"}, claims, public),
        signed({"alg": "RS256", "kid": 7}, claims, public),
        signed({"alg": "RS256"}, claims, public),
        signed({"kid": "rsa"}, claims, public),
        signed({"alg": "RS256", "kid": "rsa", "crit": ["exp"]}, claims, public),
        provider.token("RS256").rpartition(".")[0] + ".",
        *("", ".", "..", "a.b", "a.b.c.d.e", "e30.e30.e30", "bnVsbA.e30.", "W10.e30.", "ä.ö.ü", "." * 50_000),
        "[" * 5_000 + ".x.y",
        base64.urlsafe_b64encode(b"[" * 9_000).decode() + ".x.y",
    ]
    for token in tokens:
        with pytest.raises(BadToken) as refused:
            check(token, keys, RULES, time.time())
        assert "admin" not in str(refused.value)


def test_a_token_with_any_bit_changed_is_refused(provider: IdentityProvider, keys: TokenKeys) -> None:
    draw = random.Random(7)
    token = provider.token("ES256")
    for _ in range(300):
        at = draw.randrange(len(token))
        other = draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=%")
        changed = token[:at] + other + token[at + 1 :]
        if _decoded(changed) == _decoded(token):
            continue
        with pytest.raises(BadToken):
            check(changed, keys, RULES, time.time())


def _decoded(token: str) -> list[bytes] | None:
    """The bytes of the parts: the last character of base64 has bits that mean nothing."""
    with contextlib.suppress(ValueError):
        return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]
    return None


def test_a_key_that_is_not_there_is_told_apart(provider: IdentityProvider, keys: TokenKeys) -> None:
    other = RSAKey.generate_key(2048, {"kid": "new"})
    token = jwt.encode({"alg": "RS256", "kid": "new"}, {"sub": "a"}, other, algorithms=["RS256"])
    with pytest.raises(UnknownKey):
        check(token, keys, RULES, time.time())


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": []}', b'{"keys": [7, {}, {"kty": "RSA"}]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}]}', b"[" * 100_000,
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}',
    ],
)  # fmt: skip
def test_an_answer_without_keys_that_sign_is_refused(text: bytes) -> None:
    with pytest.raises(UnusableKeys):
        TokenKeys.parse(text)


@pytest.mark.parametrize(
    "url", ["http://idp.example/keys", "ftp://127.0.0.1/x", "keys.json", "https://", "file:"]
)
def test_keys_come_over_https_or_from_a_file(url: str) -> None:
    with pytest.raises(UnusableKeys):
        KeySetSource(url)


def test_keys_are_fetched_and_failures_told(provider: IdentityProvider, tmp_path: Path) -> None:
    assert len(KeySetSource(provider.url).fetch()) == 3
    path = tmp_path / "keys of idp.json"
    provider.write(path)
    assert len(KeySetSource(path.as_uri()).fetch()) == 3
    for status in (500, 404, 302):
        provider.status = status
        with pytest.raises(KeysUnreachable):
            KeySetSource(provider.url).fetch()
    provider.status = 200
    with pytest.raises(KeysUnreachable):
        KeySetSource("https://127.0.0.1:1/keys").fetch()
    path.write_bytes(b"x" * (2 << 20))
    with pytest.raises(KeysUnreachable, match="larger than"):
        KeySetSource(path.as_uri()).fetch()
