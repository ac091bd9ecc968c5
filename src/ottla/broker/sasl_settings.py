"""The settings of a listener's SASL: mechanisms, PLAIN's users, limits; read anew for each connection.

A listener's own value (`listener.name.NAME.…`) goes before the broker's. As in Kafka, PLAIN's users stand in
`listener.name.NAME.plain.sasl.jaas.config`, and that setting without a mechanism in its name is of no use.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from ottla.config.jaas import JaasError, parse_logins
from ottla.core.security.sasl.connection import SaslRules
from ottla.core.security.sasl.plain import PLAIN
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.core.settings import broker_settings
from ottla.core.settings.broker_settings import LISTENER_PREFIX
from ottla.core.settings.config_layers import BrokerLayers

SERVED_MECHANISMS: Final = (PLAIN, *(each.mechanism_name for each in ScramMechanism))
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER: Final = "user_"


def enabled_mechanisms(layers: BrokerLayers, listener_name: str) -> tuple[str, ...]:
    """`sasl.enabled.mechanisms` of a listener."""
    mechanisms: tuple[str, ...] = layers.for_listener(listener_name, broker_settings.SASL_ENABLED_MECHANISMS)
    return mechanisms


def sasl_rules(layers: BrokerLayers, listener_name: str) -> SaslRules:
    """The rules for a new connection."""
    return SaslRules(
        mechanisms=enabled_mechanisms(layers, listener_name),
        failure_delay_ms=layers[broker_settings.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
        max_session_ms=lambda mechanism: _max_session_ms(layers, listener_name, mechanism),
    )


def plain_users(layers: BrokerLayers, listener_name: str) -> Mapping[str, str]:
    """The users of PLAIN with their passwords. Raises JaasError."""
    name = plain_setting_name(listener_name)
    if name not in layers.names():
        raise JaasError("it is not set")
    setting = broker_settings.SASL_JAAS_CONFIG
    value = layers.for_listener(f"{listener_name}.{PLAIN}", setting)
    return _users(value.value if value is not None else "")


def plain_setting_name(listener_name: str) -> str:
    """The name of the setting with a listener's users of PLAIN."""
    return f"{LISTENER_PREFIX}{listener_name.lower()}.plain.{broker_settings.SASL_JAAS_CONFIG.name}"


def sasl_problem(layers: BrokerLayers, listener_name: str) -> tuple[str, str] | None:
    """The setting that keeps a listener from serving SASL, and why; None if there is none."""
    name = broker_settings.SASL_ENABLED_MECHANISMS.name
    mechanisms = enabled_mechanisms(layers, listener_name)
    unknown = [each for each in mechanisms if each not in SERVED_MECHANISMS]
    if unknown or not mechanisms:
        served = ", ".join(SERVED_MECHANISMS)
        return name, f"{', '.join(unknown) or 'no mechanism'} is not served, name some of {served}"
    if PLAIN in mechanisms:
        try:
            plain_users(layers, listener_name)
        except JaasError as error:
            return plain_setting_name(listener_name), str(error)
    return None


def _max_session_ms(layers: BrokerLayers, listener_name: str, mechanism: str) -> int:
    setting = broker_settings.CONNECTIONS_MAX_REAUTH_MS
    own = f"{listener_name}.{mechanism}"
    if f"{LISTENER_PREFIX}{own.lower()}.{setting.name}" in layers.names():
        return layers.for_listener(own, setting)
    return layers.for_listener(listener_name, setting)


@functools.lru_cache(maxsize=16)
def _users(text: str) -> Mapping[str, str]:
    """Reading the text costs more than checking a password; it changes rarely."""
    users: dict[str, str] = {}
    for login in parse_logins(text):
        if login.module != PLAIN_MODULE:
            raise JaasError(f"{login.module} is not {PLAIN_MODULE}")
        for name, password in login.options.items():
            if name.startswith(_USER):
                users[name[len(_USER) :]] = password
    return users
