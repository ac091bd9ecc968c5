"""The settings of authentication and authorization of a service's clients."""

from __future__ import annotations

import enum
from typing import Any, Final

from ottla.config.setting import (
    HIGH,
    LOW,
    Setting,
    boolean,
    choice,
    integer,
    long,
    string,
    string_list,
    text_or_none,
)
from ottla.config.validators import at_least, between


class Method(enum.StrEnum):
    """How clients prove who they are, besides the certificates of TLS."""

    NONE = "NONE"
    BASIC = "BASIC"
    BEARER = "BEARER"


ANY_ROLE: Final = frozenset(("*", "**"))

METHOD: Final = choice(Method)(
    "authentication.method",
    Method.NONE,
    "How clients prove who they are: by name and password (BASIC), or by a token of an identity provider "
    "(BEARER). With NONE a certificate (ssl.client.authentication) names the client, if it shows one.",
    importance=HIGH,
)
REALM: Final = string(
    "authentication.realm", "", "The name that clients are told to show beside the question for a password."
)
ROLES: Final = string_list(
    "authentication.roles",
    ("*",),
    "The roles of which a client of BASIC or BEARER must have one; `*`: none is needed.",
)
SKIP_PATHS: Final = string_list(
    "authentication.skip.paths",
    (),
    "Paths that any client may read, such as `/` for a health check; `/docs/*` for all below one.",
)
USERS_FILE: Final = text_or_none(
    "ottla.authentication.users.file",
    None,
    "The users of BASIC: a file of lines as `alice: SCRYPT:…,role`. `ottla user hash` writes them. Jetty's "
    "forms of passwords, MD5:, CRYPT: and OBF:, are taken too. Read again when it changes.",
    importance=HIGH,
)
JWKS_URL: Final = text_or_none(
    "oauthbearer.jwks.endpoint.url",
    None,
    "Where the keys of the identity provider are, for BEARER: an address of https:// or file://.",
    importance=HIGH,
)
JWKS_REFRESH_MS: Final = long(
    "oauthbearer.jwks.endpoint.refresh.ms",
    3_600_000,
    "How often the keys are read again; an unknown key in a token has them read within seconds.",
    at_least(1_000),
    importance=LOW,
)
JWKS_CA_LOCATION: Final = text_or_none(
    "ottla.oauthbearer.ca.location",
    None,
    "The authorities of the identity provider's certificate, in PEM; none: those of the system.",
)
ISSUER: Final = text_or_none("oauthbearer.expected.issuer", None, "The issuer that tokens must name (iss).")
AUDIENCE: Final = string_list(
    "oauthbearer.expected.audience", (), "The audiences of which tokens must name one (aud)."
)
CLOCK_SKEW_SECONDS: Final = integer(
    "oauthbearer.clock.skew.seconds",
    30,
    "How far the provider's clock may be from this machine's.",
    between(0, 3_600),
    importance=LOW,
)
SUB_CLAIM: Final = string("oauthbearer.sub.claim.name", "sub", "The claim with the client's name.")
GROUPS_CLAIM: Final = string(
    "oauthbearer.groups.claim.name",
    "groups",
    "The claim with the client's roles: a list, or a text with spaces; `a.b` is the claim b within a.",
)
ACCESS_RULES: Final = text_or_none(
    "ottla.access.rules",
    None,
    "Who may do what, with semicolons between: `Role:orders write orders-*; User:ann admin *; * read *`. "
    "Without rules clients may do everything.",
    importance=HIGH,
)
ACCESS_RULES_FILE: Final = text_or_none(
    "ottla.access.rules.file", None, "A file of such rules, one a line. Read again when it changes."
)
ALLOW_ANONYMOUS: Final = boolean(
    "ottla.http.allow.anonymous",
    False,
    "Whether the service may listen on addresses that other machines reach, without knowing its clients.",
)

AUTHENTICATION_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    METHOD,
    REALM,
    ROLES,
    SKIP_PATHS,
    USERS_FILE,
    JWKS_URL,
    JWKS_REFRESH_MS,
    JWKS_CA_LOCATION,
    ISSUER,
    AUDIENCE,
    CLOCK_SKEW_SECONDS,
    SUB_CLAIM,
    GROUPS_CLAIM,
    ACCESS_RULES,
    ACCESS_RULES_FILE,
    ALLOW_ANONYMOUS,
)
