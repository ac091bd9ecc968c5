"""Principals: their texts, and those of clients with certificates."""

from __future__ import annotations

import pytest

from ottla.core.security.principals import KafkaPrincipal, certificate_principal, parse_principal
from ottla.security.principal_mapping import InvalidPrincipal, PrincipalMapper


def test_a_principal_is_split_at_its_first_colon() -> None:
    assert parse_principal("User:CN=a:b") == KafkaPrincipal("User", "CN=a:b")
    assert str(parse_principal("User:")) == "User:"
    with pytest.raises(InvalidPrincipal):
        parse_principal("alice")


def test_a_certificates_principal_is_a_user() -> None:
    mapper, uris = PrincipalMapper("RULE:^CN=(.*?),.*$/$1/"), ["spiffe://a/b"]
    subject = "CN=Duke,OU=Duke"
    assert str(certificate_principal(subject, uris, mapper, use_spiffe_id=True)) == "User:spiffe://a/b"
    assert str(certificate_principal(subject, uris, mapper, use_spiffe_id=False)) == "User:Duke"
