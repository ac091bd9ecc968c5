"""The settings of a listener's TLS: keys, authorities, versions, certificates of clients and their names.

A listener's own value (`listener.name.NAME.ssl.…`) goes before the broker's. As in Kafka, a listener with
SASL asks for certificates only by a value of its own (KIP-684), and names its clients by their logins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.listeners import SASL_SSL, Listener
from ottla.config.setting import Password, Setting
from ottla.core.settings import broker_settings
from ottla.core.settings.broker_settings import LISTENER_PREFIX
from ottla.core.settings.config_layers import BrokerLayers
from ottla.security.key_stores import Store
from ottla.security.principal_mapping import InvalidMappingRules, PrincipalMapper
from ottla.security.server_tls import PROTOCOLS, ClientAuthentication, ServerTls

HTTPS: Final = "https"
_CONTEXTS: Final = ("TLS", *PROTOCOLS)
_CLASSES: Final[tuple[Setting[str | None], ...]] = (
    broker_settings.SSL_ENGINE_FACTORY_CLASS,
    broker_settings.SSL_PROVIDER,
)


def server_tls(layers: BrokerLayers, listener: Listener) -> ServerTls:
    """The TLS of a listener, or of connections to the listeners of this name on other nodes."""

    def text(setting: Setting[Password | None]) -> str | None:
        found = layers.for_listener(listener.name, setting)
        return None if found is None else found.value

    identity = Store(
        layers.for_listener(listener.name, broker_settings.SSL_KEYSTORE_LOCATION),
        text(broker_settings.SSL_KEYSTORE_PASSWORD),
        text(broker_settings.SSL_KEYSTORE_CERTIFICATE_CHAIN),
        text(broker_settings.SSL_KEYSTORE_KEY),
        text(broker_settings.SSL_KEY_PASSWORD),
    )
    authorities = Store(
        layers.for_listener(listener.name, broker_settings.SSL_TRUSTSTORE_LOCATION),
        text(broker_settings.SSL_TRUSTSTORE_PASSWORD),
        text(broker_settings.SSL_TRUSTSTORE_CERTIFICATES),
    )
    suites: tuple[str, ...] = layers.for_listener(listener.name, broker_settings.SSL_CIPHER_SUITES)
    return ServerTls(
        identity,
        authorities,
        _client_authentication(layers, listener),
        _protocols(layers, listener),
        suites,
    )


def checks_host(layers: BrokerLayers, listener: Listener) -> bool:
    """Whether the certificates of other nodes must name the hosts that this node connects to."""
    algorithm = layers.for_listener(listener.name, broker_settings.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM)
    return algorithm.lower() == HTTPS


def principal_mapper(layers: BrokerLayers, listener: Listener) -> PrincipalMapper:
    """The rules for the names of certificates. Raises InvalidMappingRules."""
    return PrincipalMapper(layers.for_listener(listener.name, broker_settings.SSL_PRINCIPAL_MAPPING_RULES))


def tls_problem(layers: BrokerLayers, listener: Listener) -> tuple[str, str] | None:
    """The setting that keeps a listener from serving TLS, and why; None if there is none. Reads no file."""
    return next(_problems(layers, listener), None)


def _problems(layers: BrokerLayers, listener: Listener) -> Iterator[tuple[str, str]]:
    def given(setting: Setting[Any]) -> str:
        own = f"{LISTENER_PREFIX}{listener.name.lower()}.{setting.name}"
        return own if own in layers.names() else setting.name

    for setting in _CLASSES:
        if layers.for_listener(listener.name, setting) is not None:
            yield given(setting), "TLS is OpenSSL's, classes of Java can't be loaded: leave it out"
    versions = layers.for_listener(listener.name, broker_settings.SSL_ENABLED_PROTOCOLS)
    unknown = [each for each in versions if each not in PROTOCOLS]
    if unknown:
        problem = f"{', '.join(unknown)} is not served, name some of {', '.join(PROTOCOLS)}"
        yield given(broker_settings.SSL_ENABLED_PROTOCOLS), problem
    if layers.for_listener(listener.name, broker_settings.SSL_PROTOCOL) not in _CONTEXTS:
        yield given(broker_settings.SSL_PROTOCOL), f"it is not one of {', '.join(_CONTEXTS)}"
    algorithm = layers.for_listener(listener.name, broker_settings.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM)
    if algorithm.lower() not in ("", HTTPS):
        yield (
            given(broker_settings.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM),
            f"{algorithm} is neither {HTTPS} nor empty",
        )
    try:
        principal_mapper(layers, listener)
    except InvalidMappingRules as problem:
        yield given(broker_settings.SSL_PRINCIPAL_MAPPING_RULES), str(problem)


def _client_authentication(layers: BrokerLayers, listener: Listener) -> ClientAuthentication:
    setting = broker_settings.SSL_CLIENT_AUTH
    own_name = f"{LISTENER_PREFIX}{listener.name.lower()}.{setting.name}"
    if listener.security_protocol == SASL_SSL and own_name not in layers.names():
        return ClientAuthentication.NONE
    return ClientAuthentication(layers.for_listener(listener.name, setting).upper())


def _protocols(layers: BrokerLayers, listener: Listener) -> tuple[str, ...]:
    """ssl.enabled.protocols; without any, as in Java, the version of ssl.protocol and those before it."""
    versions: tuple[str, ...] = layers.for_listener(listener.name, broker_settings.SSL_ENABLED_PROTOCOLS)
    if versions:
        return versions
    newest = layers.for_listener(listener.name, broker_settings.SSL_PROTOCOL)
    secure = PROTOCOLS[PROTOCOLS.index("TLSv1.2") :]
    return secure if newest == "TLS" else tuple(each for each in secure if each <= newest) or (newest,)
