"""The principal of a client: `User:alice`, from a login or from the client's certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.security.principal_mapping import InvalidPrincipal, PrincipalMapper, certificate_name

USER_TYPE: Final = "User"


class KafkaPrincipal(NamedTuple):
    """A type and a name; ACLs compare the two. `token_authenticated`: a delegation token proved it."""

    kind: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")


def parse_principal(text: str) -> KafkaPrincipal:
    """`User:alice`, split at its first colon. Raises InvalidPrincipal."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise InvalidPrincipal(f"expected a principal of the form type:name, not {text!r}")
    return KafkaPrincipal(kind, name)


def principal_parts(text: str) -> tuple[str, str]:
    """The type and the name of a principal's text."""
    kind, _, name = text.partition(":")
    return kind, name


def certificate_principal(
    subject: str, uris: Sequence[str], mapper: PrincipalMapper, *, use_spiffe_id: bool
) -> KafkaPrincipal:
    """The principal of a client with a certificate. Raises InvalidPrincipal.

    subject: as `distinguished_names.rfc2253_name` writes it. uris: those among its alternative names.
    """
    return KafkaPrincipal(USER_TYPE, certificate_name(subject, uris, mapper, use_spiffe_id=use_spiffe_id))
