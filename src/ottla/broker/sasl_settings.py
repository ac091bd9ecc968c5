"""The settings of a listener's SASL: mechanisms, logins, limits; read anew for each connection.

The login of a mechanism at a listener has PLAIN's users, and the user as which this node logs in to the
others' listener of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.sasl_logins import (
    SERVED_MECHANISMS,
    for_mechanism,
    jaas_login,
    jaas_setting_name,
)
from ottla.config.jaas import JaasError
from ottla.config.setting import Setting
from ottla.core.security.sasl.connection import SaslRules
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER
from ottla.core.security.sasl.plain import PLAIN
from ottla.core.security.sasl.scram import TOKEN_AUTHENTICATION
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers

_SECURITY: Final = "org.apache.kafka.common.security"
DEFAULT_HANDLERS: Final = frozenset(
    {
        f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",
        f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",
    }
)
"""Kafka's own classes behind PLAIN and SCRAM, which do what is done here."""
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
        max_session_ms=lambda mechanism: for_mechanism(
            layers, listener_name, mechanism, broker_settings.CONNECTIONS_MAX_REAUTH_MS
        ),
    )


def plain_users(layers: BrokerLayers, listener_name: str) -> Mapping[str, str]:
    """The users of PLAIN with their passwords. Raises JaasError."""
    options = jaas_login(layers, listener_name, PLAIN).options
    return {name[len(_USER) :]: password for name, password in options.items() if name.startswith(_USER)}


def sasl_problem(layers: BrokerLayers, listener_name: str) -> tuple[str, str] | None:
    """The setting that keeps a listener from serving SASL, and why; None if there is none."""
    mechanisms = enabled_mechanisms(layers, listener_name)
    unserved = [each for each in mechanisms if each not in SERVED_MECHANISMS]
    if unserved or not mechanisms:
        return broker_settings.SASL_ENABLED_MECHANISMS.name, _unserved(unserved)
    for mechanism in mechanisms:
        # A class that checks passwords elsewhere (a directory) must not be passed over.
        setting: Setting[str | None] = broker_settings.SASL_SERVER_CALLBACK_HANDLER_CLASS
        handler = for_mechanism(layers, listener_name, mechanism, setting)
        if handler is not None and mechanism != OAUTHBEARER and handler not in DEFAULT_HANDLERS:
            return setting.name, f"{handler} can't be loaded, so {mechanism} would be checked by other rules"
    if PLAIN in mechanisms:
        try:
            plain_users(layers, listener_name)
        except JaasError as error:
            return jaas_setting_name(listener_name, PLAIN), str(error)
    if OAUTHBEARER in mechanisms:
        from ottla.broker.oauthbearer_settings import validation_problem

        return validation_problem(layers, listener_name)
    return None


def node_login_problem(
    layers: BrokerLayers, listener_name: str, mechanism_setting: Setting[str], *, listens: bool
) -> tuple[str, str] | None:
    """The setting that keeps this node from logging in to others at their listener of this name, and why.

    listens: whether it is one of this node's own listeners, too; the mechanism has to be enabled there.
    """
    mechanism = layers[mechanism_setting]
    if mechanism not in SERVED_MECHANISMS:
        return mechanism_setting.name, _unserved([mechanism])
    enabled = enabled_mechanisms(layers, listener_name)
    if listens and mechanism not in enabled:
        return mechanism_setting.name, (
            f"nodes log in to each other at listener {listener_name}, where sasl.enabled.mechanisms has "
            f"{', '.join(enabled)}: name one of these"
        )
    if mechanism == OAUTHBEARER:
        from ottla.broker.oauthbearer_settings import retrieval_problem

        return retrieval_problem(layers, listener_name)
    try:
        user_and_password(layers, listener_name, mechanism)
    except JaasError as error:
        return jaas_setting_name(listener_name, mechanism), str(error)
    return None


def user_and_password(layers: BrokerLayers, listener_name: str, mechanism: str) -> tuple[str, str, bool]:
    """The user and the password of this node at others, and whether the user is a delegation token.

    Raises JaasError.
    """
    options = jaas_login(layers, listener_name, mechanism).options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise JaasError("nodes log in to each other by it: it needs the options username and password")
    by_token = mechanism != PLAIN and options.get(TOKEN_AUTHENTICATION, "").lower() == "true"
    return user, password, by_token


def _unserved(mechanisms: list[str]) -> str:
    served = ", ".join(SERVED_MECHANISMS)
    text = f"{', '.join(mechanisms) or 'no mechanism'} is not served, name some of {served}"
    if "GSSAPI" in mechanisms:
        text += " (Kerberos is not provided for; GSSAPI is Kafka's default where nothing is set)"
    return text
