"""The settings of `ottla audit count` and `ottla audit serve`.

Settings that begin with `client.` go, without that prefix, to the Kafka client.
"""

from __future__ import annotations

import enum
import re
from typing import Final

from ottla.audit.core.counting import Rules
from ottla.audit.count.counter import CountOptions
from ottla.audit.serve.alerting import Mail
from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import (
    HIGH,
    LOW,
    Password,
    Setting,
    Table,
    boolean,
    by_name,
    choice,
    integer,
    password,
    string,
    text_or_none,
)
from ottla.config.settings import Settings
from ottla.config.unsupported import merged
from ottla.config.validators import between, not_empty
from ottla.web import http_settings
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import listeners_setting
from ottla.web.tls_settings import base_name

CLIENT_PREFIX: Final = "client."
COUNT_LISTEN: Final = "127.0.0.1:8085"
SERVE_LISTEN: Final = "127.0.0.1:8086"


class Counting(enum.StrEnum):
    """By what records are counted."""

    RECORDS = "records"
    HEADERS = "headers"


BOOTSTRAP_SERVERS: Final = string(
    "bootstrap.servers", DEFAULT_BOOTSTRAP, "The cluster.", not_empty, importance=HIGH
)
LISTENERS: Final = listeners_setting(COUNT_LISTEN)
LISTENER_PROTOCOL_MAP: Final = http_settings.LISTENER_PROTOCOL_MAP
PORT: Final = http_settings.PORT
TIER: Final = string(
    "tier",
    "local",
    "The name of this cluster in the audit. Producers that report for it give the same name.",
    not_empty,
    importance=HIGH,
)
INCLUDE: Final = string("topics.include", ".*", "An expression for the whole names of topics to count.")
EXCLUDE: Final = string(
    "topics.exclude",
    "_.*|.*\\.internal|mm2-.*|connect-(configs|offsets|status)",
    "An expression for the whole names of topics that are not counted.",
)
COUNTING: Final[Setting[Counting]] = choice(Counting)(
    "counting",
    Counting.RECORDS,
    "records: each record by its mark, so that what is lost or doubled is named. headers: batches by their "
    "headers, without decompressing them; buckets whose sum differs from the reports are read again by "
    "record. Losses and doubles that cancel each other are not found then.",
)
BUCKET_MS: Final = integer(
    "bucket.ms", 600_000, "The length of a bucket, as producers have it.", between(1_000, 86_400_000)
)
LATENESS_MS: Final = integer(
    "lateness.ms",
    60_000,
    "How long behind the end of its bucket, or behind the report about it, a record may arrive.",
    between(0, 86_400_000),
)
FLUSH_MS: Final = integer("flush.ms", 1_000, "How often counts are written.", between(10, 60_000))
ROUND_MS: Final = integer(
    "round.ms", 5_000, "How often topics and the ends of their logs are looked up.", between(100, 600_000)
)
MOST_BYTES: Final = integer(
    "fetch.max.bytes",
    16 << 20,
    "The most bytes of an answer of a broker.",
    between(1 << 20, 256 << 20),
    importance=LOW,
)

_COUNT: Final = tuple(globals().values())

ALSO: Final = string(
    "also.bootstrap.servers",
    "",
    "Further clusters whose audit is shown as well, with semicolons between them.",
)
ALERT_URL: Final = text_or_none(
    "alert.http.url", None, "Where incomplete buckets are told, by POST with JSON. None: in the log alone."
)
MAIL_HOST: Final = text_or_none(
    "alert.mail.smtp.host", None, "The mail server by which incomplete buckets are told. None: by no mail."
)
MAIL_PORT: Final = integer("alert.mail.smtp.port", 25, "Its port.", between(1, 65_535))
MAIL_STARTTLS: Final = boolean(
    "alert.mail.smtp.starttls", False, "Whether TLS is begun there before anything is sent."
)
MAIL_USER: Final[Setting[Password | None]] = password.optional(
    "alert.mail.smtp.user.info", "The user there, as name:password."
)
MAIL_FROM: Final = string("alert.mail.from", "ottla-audit@localhost", "The sender of mails.", not_empty)
MAIL_TO: Final = string("alert.mail.to", "", "Who gets mails, with commas between the addresses.")

COUNT_TABLE: Final = Table(
    title="ottla audit count",
    settings=by_name((*_COUNT, *FRONT_SETTINGS)),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_AUDIT_",
    base_name=base_name,
    unsupported=merged((http_settings.UNSUPPORTED, unsupported_properties((CLIENT_PREFIX,)))),
)
SERVE_LISTENERS: Final = listeners_setting(SERVE_LISTEN)
SERVE_TABLE: Final = Table(
    title="ottla audit serve",
    settings=by_name(
        (
            *(BOOTSTRAP_SERVERS, SERVE_LISTENERS, LISTENER_PROTOCOL_MAP, PORT, LATENESS_MS, ALSO, ALERT_URL),
            *(MAIL_HOST, MAIL_PORT, MAIL_STARTTLS, MAIL_USER, MAIL_FROM, MAIL_TO),
            *FRONT_SETTINGS,
        )
    ),
    prefixes=(CLIENT_PREFIX,),
    variables="OTTLA_AUDIT_",
    base_name=base_name,
    unsupported=merged((http_settings.UNSUPPORTED, unsupported_properties((CLIENT_PREFIX,)))),
)


def access_of(settings: Settings, client_id: str) -> ClusterAccess:
    """How the cluster is reached. Raises ServiceError for settings of the client that can't be."""
    access = ClusterAccess(settings[BOOTSTRAP_SERVERS], settings.with_prefix(CLIENT_PREFIX), client_id)
    try:
        access.require_common_properties()
        access.connection()
    except ClientOptionError as problem:
        raise ServiceError(f"ottla audit: the settings client.*: {problem}") from None
    return access


def count_options_of(settings: Settings) -> CountOptions:
    """What is counted, and how. Raises ConfigError."""
    bucket_ms = settings[BUCKET_MS]
    if bucket_ms % 1_000:
        raise settings.refusal(BUCKET_MS.name, f"{bucket_ms} is not whole seconds")
    return CountOptions(
        settings[TIER],
        Rules(bucket_ms, settings[LATENESS_MS]),
        _expression(settings, INCLUDE),
        _expression(settings, EXCLUDE),
        settings[COUNTING] is Counting.HEADERS,
        settings[FLUSH_MS] / 1_000,
        settings[ROUND_MS] / 1_000,
        settings[MOST_BYTES],
    )


def mail_of(settings: Settings) -> Mail | None:
    """Where mails go; None if none do. Raises ConfigError."""
    host = settings[MAIL_HOST]
    if host is None:
        return None
    recipients = tuple(one.strip() for one in settings[MAIL_TO].split(",") if one.strip())
    if not recipients:
        raise settings.refusal(MAIL_TO.name, "a mail server is given, and nobody who gets mails")
    user_info = settings[MAIL_USER]
    user, _, secret = ("", "", "") if user_info is None else user_info.value.partition(":")
    return Mail(
        host,
        settings[MAIL_PORT],
        settings[MAIL_FROM],
        recipients,
        settings[MAIL_STARTTLS],
        user or None,
        secret or None,
    )


def _expression(settings: Settings, setting: Setting[str]) -> re.Pattern[str]:
    text = settings[setting]
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise settings.refusal(setting.name, f"{text!r} is not a regular expression: {problem}") from None
