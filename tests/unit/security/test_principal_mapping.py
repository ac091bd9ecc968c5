"""Names of principals: mapping rules, SPIFFE ids, and names of certificates as Java prints them."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla.security.distinguished_names import MAX_NAME_BYTES, MalformedName, rfc2253_name
from ottla.security.principal_mapping import (
    InvalidMappingRules,
    InvalidPrincipal,
    PrincipalMapper,
    certificate_name,
    spiffe_id,
)

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DUKE),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", "DUKE@SERVICEUSERS"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "duke"),
        (r"RULE:^OU=(.*)$/$1/, DEFAULT", DUKE),
        (r"RULE:^(?<cn>CN=.*?),.*$/${cn}$4/", "CN=Duke$4"),
        (r"RULE:^CN=(.*?),.*$/\$$1\/x/", "$Duke/x"),
        (r"RULE:^CN=(.*?),.*$/$12/", "Duke2"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name_of(DUKE) == name


def test_a_name_that_no_rule_matches_gives_no_principal() -> None:
    with pytest.raises(InvalidPrincipal, match="No rules apply"):
        PrincipalMapper("RULE:^OU=(.*)$/$1/").name_of(DUKE)


@pytest.mark.parametrize(
    "rules",
    [
        "default", "DEFAUL", "DEFAULT/L", "DEFAULT/", "RULE", "RULE:abc", "RULE:^CN=(.*?),OU=S.*$/$1",
        "RULE:(/$1/", r"RULE:[a&&[b]]/x/", r"RULE:\p{L}+/x/", r"RULE:.*/$1/", r"RULE:(.*)/$x/",
    ],
)  # fmt: skip
def test_rules_that_can_not_be_used_are_refused_at_the_start(rules: str) -> None:
    with pytest.raises(InvalidMappingRules):
        PrincipalMapper(rules)


@pytest.mark.parametrize(
    ("uris", "found"),
    [
        ([], None),
        (["https://example.org/a"], None),
        (["spiffe://example.org/ns/prod/sa/orders"], "spiffe://example.org/ns/prod/sa/orders"),
    ],
)
def test_a_spiffe_id_is_found(uris: list[str], found: str | None) -> None:
    assert spiffe_id(uris) == found


@pytest.mark.parametrize(
    "uris",
    [
        ["spiffe://a/b", "spiffe://a/c"], ["spiffe://a/b", "https://a"], ["spiffe://"], ["spiffe://A/b"],
        ["spiffe://a/"], ["spiffe://a//b"], ["spiffe://a/../b"], ["spiffe://a/b?c"], ["spiffe://a:1/b"],
        ["SPIFFE://a/b"], ["spiffe://a/" + "b" * 3000],
    ],
)  # fmt: skip
def test_a_malformed_spiffe_id_is_refused(uris: list[str]) -> None:
    with pytest.raises(InvalidPrincipal):
        spiffe_id(uris)


def test_the_spiffe_id_stands_before_the_subject_where_it_is_asked_for() -> None:
    mapper, uris = PrincipalMapper(), ["spiffe://a/b"]
    assert certificate_name(DUKE, uris, mapper, use_spiffe_id=True) == "spiffe://a/b"
    assert certificate_name(DUKE, uris, mapper, use_spiffe_id=False) == DUKE
    assert certificate_name(DUKE, [], mapper, use_spiffe_id=True) == DUKE


def test_a_subject_is_printed_as_java_prints_it() -> None:
    """As java.security printed this subject."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ' a,b "c" '),
            x509.NameAttribute(NameOID.COMMON_NAME, "jürgen"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
        ]
    )
    assert rfc2253_name(subject.public_bytes()) == (
        '1.2.840.113549.1.9.1=#16056140622e63,CN=jürgen,O=\\ a\\,b \\"c\\"\\ ,C=DE'
    )


@pytest.mark.parametrize(
    "der",
    [
        b"", b"\x30", b"\x30\x05", b"\x31\x00", b"\x30\x00\x00", b"\x30\x80\x00\x00",
        b"\x30\x85\x00\x00\x00\x00\x00", bytes.fromhex("3006310430020600"),
        bytes.fromhex("300a310830060601ff0c0161"),
        b"\x30\x84" + (MAX_NAME_BYTES + 1).to_bytes(4, "big") + bytes(MAX_NAME_BYTES + 1),
    ],
)  # fmt: skip
def test_malformed_names_are_refused(der: bytes) -> None:
    with pytest.raises(MalformedName):
        rfc2253_name(der)


def test_an_empty_name_is_an_empty_text() -> None:
    assert rfc2253_name(b"\x30\x00") == ""
