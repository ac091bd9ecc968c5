"""The settings of Aiven's HTTP sink that this one has, and those that it has not."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from ottla.config.setting import (
    HIGH,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    long,
    password,
    string,
    string_list,
)
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import Rule, at_least, between
from ottla.connect.plugins.required import Required


class Authorization(enum.StrEnum):
    """How requests are authorized."""

    NONE = "none"
    STATIC = "static"
    OAUTH2 = "oauth2"
    APIKEY = "apikey"


class ClientMode(enum.StrEnum):
    """Where the client's id and secret are in a request for a token."""

    HEADER = "header"
    URL = "url"


def _url_problem(value: str) -> str | None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 1) < 1
    except ValueError:
        wrong = True
    return "a URL looks like http://host:port/path" if wrong else None


def _headers_problem(value: Sequence[str]) -> str | None:
    wrong = [each for each in value if not each.partition(":")[0].strip() or ":" not in each]
    return f"a header is name:value, not {wrong[0]!r}" if wrong else None


_URL: Final = Rule("an http or https URL", lambda value: None if value is None else _url_problem(value))

HTTP_URL: Final = string.optional("http.url", "Where requests are posted.", Required(_URL), importance=HIGH)
AUTHORIZATION_TYPE: Final = choice(Authorization)(
    "http.authorization.type",
    Authorization.NONE,
    "none; static and apikey: http.headers.authorization is sent; oauth2: a token is asked for.",
    importance=HIGH,
)
HEADERS_AUTHORIZATION: Final = password.optional(
    "http.headers.authorization", "The header Authorization, where the type is static or apikey."
)
HEADERS_CONTENT_TYPE: Final = string.optional("http.headers.content.type", "The header Content-Type.")
HEADERS_ADDITIONAL: Final = string_list(
    "http.headers.additional", (), "More headers, name:value.", Rule("name:value, …", _headers_problem)
)
HTTP_TIMEOUT: Final = integer(
    "http.timeout", 30, "How many seconds a connection or an answer may take.", between(1, 86_400)
)
MAX_RETRIES: Final = integer(
    "max.retries", 1, "How often a request is sent again that failed for the moment.", at_least(0)
)
RETRY_BACKOFF_MS: Final = long("retry.backoff.ms", 3000, "The time before it is sent again.", at_least(0))
BATCHING_ENABLED: Final = boolean(
    "batching.enabled", False, "A request has several records; otherwise each has a request.", importance=HIGH
)
BATCH_MAX_SIZE: Final = integer(
    "batch.max.size", 500, "The most records of a request.", between(1, 1_000_000)
)
BATCH_PREFIX: Final = string("batch.prefix", "", "What a request with several records begins with.")
BATCH_SUFFIX: Final = string("batch.suffix", "", "What it ends with; \\n stands for the end of a line.")
BATCH_SEPARATOR: Final = string(
    "batch.separator",
    "",
    "What stands between its records; \\n, and nothing at all, stand for the end of a line.",
)
OAUTH2_TOKEN_URL: Final = string.optional("oauth2.access.token.url", "Where a token is asked for.", _URL)
OAUTH2_CLIENT_ID: Final = string.optional("oauth2.client.id", "The client's id.")
OAUTH2_CLIENT_SECRET: Final = password.optional("oauth2.client.secret", "The client's secret.")
OAUTH2_CLIENT_MODE: Final = choice(ClientMode)(
    "oauth2.client.authorization.mode",
    ClientMode.HEADER,
    "header: id and secret are sent as basic authorization. url: in the request's form.",
)
OAUTH2_CLIENT_SCOPE: Final = string.optional("oauth2.client.scope", "The scope that is asked for.")
OAUTH2_GRANT_TYPE_KEY: Final = string("oauth2.grant.type.key", "grant_type", "The form's name of the grant.")
OAUTH2_GRANT_TYPE: Final = string("oauth2.grant.type", "client_credentials", "The grant that is asked for.")
OAUTH2_ID_PROPERTY: Final = string(
    "oauth2.request.client.id.property", "client_id", "The form's name of the id, in mode url."
)
OAUTH2_SECRET_PROPERTY: Final = string(
    "oauth2.request.client.secret.property", "client_secret", "The form's name of the secret, in mode url."
)
OAUTH2_RESPONSE_TOKEN: Final = string(
    "oauth2.response.token.property", "access_token", "The answer's field with the token."
)

TABLE: Final = Table(
    "HttpSink",
    by_name(globals().values()),
    unsupported=merged(
        [
            harmless("the runtime tries again, as errors.retry.timeout says", "kafka.retry.backoff.ms"),
            refusing("there are no proxies", "http.proxy.", "http.proxy.host", "http.proxy.port"),
            refusing("certificates are always checked", "http.ssl.trust.all.certs", nothing=("false",)),
        ]
    ),
)
