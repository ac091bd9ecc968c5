"""Bearer tokens: JSON web tokens that an identity provider has signed (RFC 7519, 8725), checked without I/O.

Only signatures by a private key are taken: neither none at all (`alg: none`), nor a shared secret, which an
attacker would make of the public key (HS256). The key is the one that the token names (`kid`), and never one
that comes with the token (`jwk`, `jku`, `x5u`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from joserfc.jwk import Key

MAX_TOKEN_CHARACTERS: Final = 16 << 10
MAX_KEYS: Final = 64
"""The most keys of a provider that are kept."""
MAX_TRIED: Final = 4
"""The most keys that are tried for a token that names none."""
_KEY_TYPES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
"""The algorithms that are taken, and the types of their keys."""


class BadToken(Exception):
    """The token is not accepted; the message is for the client, and has nothing of the token."""


class UnknownKey(BadToken):
    """The token names a key that the provider did not have when it was last asked."""


class UnusableKeys(ValueError):
    """A provider's answer is no set of keys."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The tokens that are accepted. issuer: None for any; audiences: none for any.

    subject_claim, roles_claim: their names; `realm_access.roles` is a claim within another.
    requires_issued_at: whether a token must say when it was made.
    """

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    clock_skew_seconds: int = 30
    subject_claim: str = "sub"
    roles_claim: str = "groups"
    requires_issued_at: bool = False


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The client that the token was given to. expires_at: the token's end, in seconds since 1970."""

    name: str
    roles: frozenset[str]
    expires_at: float


class TokenKeys:
    """The keys with which a provider signs at present."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def parse(cls, text: bytes) -> TokenKeys:
        """The keys of a JSON web key set (RFC 7517) that sign; those of unknown kinds are left out.

        Raises UnusableKeys.
        """
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key

        try:
            described = json.loads(text)["keys"]
            if not isinstance(described, list):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UnusableKeys("it is not a JSON web key set") from None
        keys = []
        for each in described[:MAX_KEYS]:
            if not isinstance(each, dict) or each.get("kty") not in ("RSA", "EC", "OKP"):
                continue
            if each.get("use", "sig") != "sig":
                continue
            try:
                keys.append(import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
        if not keys:
            raise UnusableKeys("none of its keys can check signatures")
        return cls(keys)

    def fitting(self, kid: str | None, algorithm: str) -> Sequence[Key]:
        """The keys that may have signed a token. Raises UnknownKey."""
        of_type = [key for key in self._keys if key.key_type == _KEY_TYPES[algorithm]]
        allowed = [key for key in of_type if key.dict_value.get("alg", algorithm) == algorithm]
        if kid is None:
            return allowed[:MAX_TRIED]
        named = [key for key in allowed if key.kid == kid]
        if not named:
            raise UnknownKey("The token was signed with a key that the identity provider does not have")
        return named


def check(token: str, keys: TokenKeys, rules: TokenRules, now_seconds: float) -> TokenHolder:
    """The holder of a token whose signature and claims are good. Raises BadToken, UnknownKey."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    header = _header(token)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
        raise BadToken("The token must be signed with the private key of the identity provider")
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise BadToken("The token's header can't be read")
    for key in keys.fitting(kid, algorithm):
        try:
            claims = jwt.decode(token, key, algorithms=[algorithm]).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
        return _holder(claims, rules, now_seconds)
    raise BadToken("The token's signature is wrong")


def _header(token: str) -> Mapping[str, Any]:
    parts = token.split(".", 3)
    if len(token) > MAX_TOKEN_CHARACTERS or len(parts) != 3:
        raise BadToken("The token is not a signed JSON web token")
    try:
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise BadToken("The token's header can't be read")
    return header


def _holder(claims: Mapping[str, Any], rules: TokenRules, now_seconds: float) -> TokenHolder:
    skew = rules.clock_skew_seconds
    expires = _instant(claims, "exp")
    if expires is None:
        raise BadToken("The token has no end (exp)")
    if now_seconds >= expires + skew:
        raise BadToken("The token has expired")
    begins = _instant(claims, "nbf")
    if begins is not None and now_seconds < begins - skew:
        raise BadToken("The token is not valid yet (nbf)")
    # As in Kafka, this one may lie ahead: RFC 7519 gives no rule for it.
    made = _instant(claims, "iat")
    if made is None and rules.requires_issued_at:
        raise BadToken("The token does not say when it was made (iat)")
    if any(each is not None and expires < each for each in (begins, made)):
        raise BadToken("The token has its end (exp) before its beginning")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise BadToken("The token is of another issuer (iss)")
    if rules.audiences and not rules.audiences.intersection(_texts(claims.get("aud"))):
        raise BadToken("The token is for another audience (aud)")
    name = _claim(claims, rules.subject_claim)
    if not isinstance(name, str) or not name:
        raise BadToken(f"The token has no {rules.subject_claim}")
    roles = _claim(claims, rules.roles_claim)
    # A scope is one text with spaces between (RFC 8693), groups are a list.
    given = roles.split(" ") if isinstance(roles, str) else _texts(roles)
    return TokenHolder(name, frozenset(role for role in given if role), expires)


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise BadToken(f"The token's {name} is no time")
    return float(value)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of this name, or the one that the name's parts lead to."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]
