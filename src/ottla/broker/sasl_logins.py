"""Values of settings for a mechanism at a listener, and its logins (`sasl.jaas.config`).

A value for a mechanism (`listener.name.NAME.MECHANISM.…`) goes before the listener's, and that before the
broker's. As in Kafka, logins stand in `listener.name.NAME.MECHANISM.sasl.jaas.config` alone, one module in
each.
"""

from __future__ import annotations

import functools
from typing import Final, TypeVar

from ottla.config.jaas import JaasError, Login, parse_logins
from ottla.config.setting import Setting
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER
from ottla.core.security.sasl.plain import PLAIN
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.core.settings import broker_settings
from ottla.core.settings.broker_settings import LISTENER_PREFIX
from ottla.core.settings.config_layers import BrokerLayers

T = TypeVar("T")

SCRAM_MECHANISMS: Final = tuple(each.mechanism_name for each in ScramMechanism)
SERVED_MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
_SECURITY: Final = "org.apache.kafka.common.security"
MODULES: Final = {
    PLAIN: f"{_SECURITY}.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, f"{_SECURITY}.scram.ScramLoginModule"),
    OAUTHBEARER: f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
"""The login module of each mechanism."""


def for_mechanism(layers: BrokerLayers, listener_name: str, mechanism: str, setting: Setting[T]) -> T:
    """The value for a mechanism at a listener: its own, the listener's, the broker's."""
    own = f"{listener_name}.{mechanism}"
    if f"{LISTENER_PREFIX}{own.lower()}.{setting.name}" in layers.names():
        return layers.for_listener(own, setting)
    return layers.for_listener(listener_name, setting)


def jaas_setting_name(listener_name: str, mechanism: str) -> str:
    """The name of the setting with a mechanism's login at a listener."""
    setting = broker_settings.SASL_JAAS_CONFIG.name
    return f"{LISTENER_PREFIX}{listener_name.lower()}.{mechanism.lower()}.{setting}"


def jaas_login(layers: BrokerLayers, listener_name: str, mechanism: str) -> Login:
    """The login of a mechanism at a listener. Raises JaasError."""
    if jaas_setting_name(listener_name, mechanism) not in layers.names():
        raise JaasError("it is not set")
    value = layers.for_listener(f"{listener_name}.{mechanism}", broker_settings.SASL_JAAS_CONFIG)
    return _login(value.value if value is not None else "", MODULES[mechanism])


@functools.lru_cache(maxsize=64)
def _login(text: str, module: str) -> Login:
    """Reading the text costs more than checking a password; it changes rarely."""
    logins = parse_logins(text)
    if len(logins) != 1:
        raise JaasError(f"it has {len(logins)} login modules, one is allowed")
    if logins[0].module != module:
        raise JaasError(f"{logins[0].module} is not {module}")
    return logins[0]
