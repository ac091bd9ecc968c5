"""The settings of TLS on a service's listeners, by the names that Kafka and Confluent's services give them.

A named listener (`PUBLIC://0.0.0.0:8443`) has its own under `listener.name.public.`; settings
that are not given there are as without that prefix.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.config.setting import (
    HIGH,
    LOW,
    Password,
    Setting,
    boolean,
    choice,
    password,
    string_list,
    text_or_none,
)
from ottla.config.settings import Settings
from ottla.config.validators import ListOf
from ottla.security.key_stores import Store
from ottla.security.principal_mapping import DEFAULT_RULES
from ottla.security.server_tls import DEFAULT_PROTOCOLS, PROTOCOLS, ClientAuthentication, ServerTls

LISTENER_PREFIX: Final = "listener.name."

KEYSTORE_LOCATION: Final = text_or_none(
    "ssl.keystore.location",
    None,
    "The file with the service's private key and its certificates: PEM or PKCS12.",
    importance=HIGH,
)
KEYSTORE_PASSWORD: Final[Setting[Password | None]] = password.optional(
    "ssl.keystore.password", "The password of that file.", importance=HIGH
)
KEYSTORE_TYPE: Final = text_or_none(
    "ssl.keystore.type",
    None,
    "Not needed: PEM and PKCS12 are known by their first bytes. JKS is not read.",
    importance=LOW,
)
KEYSTORE_KEY: Final[Setting[Password | None]] = password.optional(
    "ssl.keystore.key", "The private key itself, in PEM, in place of a file."
)
KEYSTORE_CHAIN: Final[Setting[Password | None]] = password.optional(
    "ssl.keystore.certificate.chain", "The certificates of that key, in PEM."
)
KEYSTORE_RELOAD: Final = boolean(
    "ssl.keystore.reload",
    True,
    "Whether files of keys and certificates, those of the truststore too, are read again when they change.",
)
KEY_PASSWORD: Final[Setting[Password | None]] = password.optional(
    "ssl.key.password", "The password of a private key in PEM."
)
TRUSTSTORE_LOCATION: Final = text_or_none(
    "ssl.truststore.location",
    None,
    "The file with the authorities of clients' certificates: PEM or PKCS12.",
    importance=HIGH,
)
TRUSTSTORE_PASSWORD: Final[Setting[Password | None]] = password.optional(
    "ssl.truststore.password", "The password of that file."
)
TRUSTSTORE_TYPE: Final = text_or_none(
    "ssl.truststore.type", None, "Not needed, as ssl.keystore.type.", importance=LOW
)
TRUSTSTORE_CERTIFICATES: Final[Setting[Password | None]] = password.optional(
    "ssl.truststore.certificates", "The authorities themselves, in PEM, in place of a file."
)
CLIENT_AUTHENTICATION: Final = choice(ClientAuthentication)(
    "ssl.client.authentication",
    ClientAuthentication.NONE,
    "Whether clients must show a certificate (REQUIRED), may (REQUESTED), or are not asked for one.",
)
CLIENT_AUTH: Final[Setting[bool | None]] = boolean.optional(
    "ssl.client.auth",
    "The former name: true is REQUIRED, where ssl.client.authentication is not given.",
    importance=LOW,
)
ENABLED_PROTOCOLS: Final = string_list(
    "ssl.enabled.protocols", DEFAULT_PROTOCOLS, "The versions of TLS.", ListOf(PROTOCOLS, empty=False)
)
CIPHER_SUITES: Final = string_list(
    "ssl.cipher.suites",
    (),
    "The cipher suites, by Java's names or OpenSSL's; none: OpenSSL's choice. Those of TLS 1.3 go together.",
    importance=LOW,
)
PRINCIPAL_MAPPING_RULES: Final = text_or_none(
    "ssl.principal.mapping.rules",
    DEFAULT_RULES,
    "How a certificate's subject becomes the name of its principal, as in Kafka's brokers.",
)
SPIFFE_PRINCIPAL: Final = boolean(
    "ottla.ssl.principal.spiffe",
    False,
    "Whether a certificate's SPIFFE id, where it has one, is the name of its principal.",
    importance=LOW,
)

TLS_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    KEYSTORE_LOCATION,
    KEYSTORE_PASSWORD,
    KEYSTORE_TYPE,
    KEYSTORE_KEY,
    KEYSTORE_CHAIN,
    KEYSTORE_RELOAD,
    KEY_PASSWORD,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_PASSWORD,
    TRUSTSTORE_TYPE,
    TRUSTSTORE_CERTIFICATES,
    CLIENT_AUTHENTICATION,
    CLIENT_AUTH,
    ENABLED_PROTOCOLS,
    CIPHER_SUITES,
    PRINCIPAL_MAPPING_RULES,
    SPIFFE_PRINCIPAL,
)
_OF_A_LISTENER: Final = frozenset(
    each.name
    for each in TLS_SETTINGS
    if each not in (KEYSTORE_RELOAD, PRINCIPAL_MAPPING_RULES, SPIFFE_PRINCIPAL)
)


def base_name(name: str) -> str:
    """The setting that a name under `listener.name.X.` is a value of; other names as they are."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    found = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return found if found in _OF_A_LISTENER else name


def tls_of(settings: Settings, listener: str) -> ServerTls:
    """The TLS of the listener of this name, in lower case."""
    prefix = f"{LISTENER_PREFIX}{listener}."

    def text(setting: Setting[Password | None]) -> str | None:
        found = settings.under(prefix, setting)
        return None if found is None else found.value

    authentication = settings.under(prefix, CLIENT_AUTHENTICATION)
    former = settings.under(prefix, CLIENT_AUTH)
    if former and not any(settings.is_given(f"{each}{CLIENT_AUTHENTICATION.name}") for each in ("", prefix)):
        authentication = ClientAuthentication.REQUIRED
    identity = Store(
        settings.under(prefix, KEYSTORE_LOCATION),
        text(KEYSTORE_PASSWORD),
        text(KEYSTORE_CHAIN),
        text(KEYSTORE_KEY),
        text(KEY_PASSWORD),
    )
    authorities = Store(
        settings.under(prefix, TRUSTSTORE_LOCATION), text(TRUSTSTORE_PASSWORD), text(TRUSTSTORE_CERTIFICATES)
    )
    protocols, suites = settings.under(prefix, ENABLED_PROTOCOLS), settings.under(prefix, CIPHER_SUITES)
    return ServerTls(identity, authorities, authentication, protocols, suites)
