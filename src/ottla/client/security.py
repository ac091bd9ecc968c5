"""The security settings among librdkafka's properties, where several spellings mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.errors import ClientOptionError

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""The grant by an assertion (RFC 7523), as `sasl.oauthbearer.grant.type` names it."""
TOKEN_AUTHENTICATION: Final = "ottla.sasl.tokenauth"
"""Whether user and password are a delegation token's id and HMAC (KIP-48): `tokenauth` of Java's logins.
librdkafka has no name for it."""
_MECHANISM_NAMES: Final = ("sasl.mechanism", "sasl.mechanisms")


class Credentials(NamedTuple):
    """A user, the password, and the SASL mechanism that proves it. Printed, the password is hidden.

    by_token: whether they are the id and the HMAC of a delegation token.
    """

    mechanism: str
    user: str
    password: str
    by_token: bool = False

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.user}, [hidden])"


def security_protocol_of(properties: Mapping[str, str]) -> str:
    """One of SECURITY_PROTOCOLS. Raises ClientOptionError for another word."""
    given = properties.get("security.protocol", "PLAINTEXT")
    if given.upper() not in SECURITY_PROTOCOLS:
        raise ClientOptionError(f"security.protocol={given}: must be one of {', '.join(SECURITY_PROTOCOLS)}")
    return given.upper()


def mechanism_of(properties: Mapping[str, str]) -> str | None:
    """The SASL mechanism, None where none is named.

    Of the two spellings of its setting, the one that is given last wins, as in librdkafka.
    """
    mechanisms = [value for name, value in properties.items() if name in _MECHANISM_NAMES]
    return mechanisms[-1] if mechanisms else None


def credentials_of(properties: Mapping[str, str]) -> Credentials | None:
    """The user's credentials, None where no user is named. Raises ClientOptionError."""
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if user is None and password is None:
        return None
    if user is None or password is None:
        raise ClientOptionError("sasl.username and sasl.password go together")
    mechanism = mechanism_of(properties)
    if mechanism is None or mechanism not in MECHANISMS:
        raise ClientOptionError(
            f"sasl.username and sasl.password go with a sasl.mechanism of {', '.join(MECHANISMS)},"
            f" not {mechanism or 'none'}"
        )
    return Credentials(mechanism, user, password, mechanism != "PLAIN" and is_by_token(properties))


def is_by_token(properties: Mapping[str, str]) -> bool:
    """Whether the credentials are those of a delegation token."""
    return str(properties.get(TOKEN_AUTHENTICATION, "")).strip().lower() == "true"


def checks_host_names(properties: Mapping[str, str]) -> bool:
    """Whether a broker's certificate must name the host that the client connects to."""
    return properties.get("ssl.endpoint.identification.algorithm", "https").lower() not in ("", "none")


def verifies_certificates(properties: Mapping[str, str]) -> bool:
    """Whether a broker's certificate must be signed by a trusted authority."""
    return properties.get("enable.ssl.certificate.verification", "true").lower() not in ("false", "f", "0")
