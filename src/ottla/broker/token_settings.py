"""The settings of delegation tokens (KIP-48)."""

from __future__ import annotations

from ottla.core.decisions.delegation_tokens import TokenRules
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers


def token_rules(layers: BrokerLayers) -> TokenRules:
    """The rules for tokens; without a secret there are none."""
    secret = layers[broker_settings.DELEGATION_TOKEN_SECRET_KEY]
    return TokenRules(
        secret=secret.value.encode() if secret is not None and secret.value else None,
        max_lifetime_ms=layers[broker_settings.DELEGATION_TOKEN_MAX_LIFETIME_MS],
        expiry_time_ms=layers[broker_settings.DELEGATION_TOKEN_EXPIRY_TIME_MS],
    )
