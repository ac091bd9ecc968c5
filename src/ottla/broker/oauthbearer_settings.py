"""The settings of OAUTHBEARER at a listener: how tokens of clients are checked, how this node gets its own.

Kafka's names and classes. Where Kafka takes unsigned tokens unless another class is named, ottla takes them
only when the class that does so is named; with `sasl.oauthbearer.jwks.endpoint.url` alone, tokens have to be
signed. Addresses are read once: they can't be changed while the node runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from ottla.broker.sasl_logins import for_mechanism, jaas_login, jaas_setting_name
from ottla.config.jaas import JaasError
from ottla.config.setting import Setting, string
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers
from ottla.security.bearer_tokens import TokenRules, UnusableKeys
from ottla.security.key_set_source import KeySetSource
from ottla.security.token_assertions import Assertion, AssertionFile, AssertionGrant, SignedAssertion
from ottla.security.token_source import (
    ClientCredentials,
    TokenFile,
    TokenSource,
    is_token_endpoint,
    token_file,
)

T = TypeVar("T")

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS: Final = frozenset(
    {
        f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
    }
)
UNSECURED_VALIDATOR: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
LOGIN_HANDLERS: Final = frozenset(
    {f"{_PACKAGE}.OAuthBearerLoginCallbackHandler", f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler"}
)
JWT_VALIDATORS: Final = frozenset({f"{_PACKAGE}.DefaultJwtValidator", f"{_PACKAGE}.BrokerJwtValidator"})
JWT_BEARER: Final = f"{_PACKAGE}.JwtBearerJwtRetriever"
JWT_RETRIEVERS: Final = frozenset(
    (
        *(
            f"{_PACKAGE}.{name}"
            for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
        ),
        JWT_BEARER,
    )
)
ALLOWED_URLS: Final = string.optional(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls", "Addresses of https that may be used."
)
ALLOWED_FILES: Final = string.optional(
    "org.apache.kafka.sasl.oauthbearer.allowed.files", "Files that may be used."
)
"""Apache Kafka takes these as system properties of Java, with commas between several. Unlike there, what is
configured may be used as long as they are not set: no client can change it."""
_TRUSTSTORE: Final = "ssl.truststore.location"

Problem = tuple[str, str]
"""The name of a setting, and the problem with it."""


def _value(layers: BrokerLayers, listener_name: str, setting: Setting[T]) -> T:
    return for_mechanism(layers, listener_name, OAUTHBEARER, setting)


def jaas_options(layers: BrokerLayers, listener_name: str) -> Mapping[str, str]:
    """The options of the listener's login; none if it has no login. Raises JaasError."""
    if jaas_setting_name(listener_name, OAUTHBEARER) not in layers.names():
        return {}
    return jaas_login(layers, listener_name, OAUTHBEARER).options


# -- tokens of clients ------------------------------------------------------------------------------------


def takes_unsigned_tokens(layers: BrokerLayers, listener_name: str) -> bool:
    """Whether tokens need no signature at this listener."""
    handler = _value(layers, listener_name, broker_settings.SASL_SERVER_CALLBACK_HANDLER_CLASS)
    return handler == UNSECURED_VALIDATOR


def validation_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    """The setting that keeps tokens from being checked at a listener, and why; None if there is none."""
    problem = _jaas_problem(layers, listener_name)
    if problem is not None:
        return problem
    setting: Setting[str | None] = broker_settings.SASL_SERVER_CALLBACK_HANDLER_CLASS
    handler = _value(layers, listener_name, setting)
    if handler == UNSECURED_VALIDATOR:
        return None
    if handler is not None and handler not in VALIDATORS:
        known = ", ".join(sorted((*VALIDATORS, UNSECURED_VALIDATOR)))
        return setting.name, f"{handler} can't be loaded, name one of {known}"
    validator = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS)
    if validator not in JWT_VALIDATORS:
        name = broker_settings.SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS.name
        return name, f"{validator} can't be loaded, name one of {', '.join(sorted(JWT_VALIDATORS))}"
    return _keys_problem(layers, listener_name) or _claims_problem(layers, listener_name)


def _keys_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    setting = broker_settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL
    url = _value(layers, listener_name, setting)
    if not url:
        return setting.name, (
            f"OAUTHBEARER needs it at listener {listener_name}: the keys that sign tokens. To take unsigned "
            f"tokens, which any client can make, set sasl.server.callback.handler.class={UNSECURED_VALIDATOR}"
        )
    try:
        source = key_set_source(layers, listener_name)
    except UnusableKeys as problem:
        return setting.name, str(problem)
    return _allowed_problem(layers, setting.name, url, None if source.path is None else str(source.path))


def _claims_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    audience, issuer = (
        broker_settings.SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
        broker_settings.SASL_OAUTHBEARER_EXPECTED_ISSUER,
    )
    any_audience, any_issuer = (
        broker_settings.SASL_OAUTHBEARER_ALLOW_UNVERIFIED_AUDIENCE,
        broker_settings.SASL_OAUTHBEARER_ALLOW_UNVERIFIED_ISSUER,
    )
    if not _value(layers, listener_name, audience) and not _value(layers, listener_name, any_audience):
        return audience.name, f"OAUTHBEARER needs it, or {any_audience.name}=true for tokens of any audience"
    if not _value(layers, listener_name, issuer) and not _value(layers, listener_name, any_issuer):
        return issuer.name, f"OAUTHBEARER needs it, or {any_issuer.name}=true for tokens of any issuer"
    for setting in (
        broker_settings.SASL_OAUTHBEARER_SUB_CLAIM_NAME,
        broker_settings.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
    ):
        if not _value(layers, listener_name, setting).strip():
            return setting.name, "it must not be empty"
    return None


def key_set_source(layers: BrokerLayers, listener_name: str) -> KeySetSource:
    """Where the keys of the identity provider are. Raises UnusableKeys, JaasError."""
    url = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL)
    return KeySetSource(url or "", jaas_options(layers, listener_name).get(_TRUSTSTORE))


def token_rules(layers: BrokerLayers, listener_name: str) -> TokenRules:
    """Which tokens of the provider are accepted."""
    audiences = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_EXPECTED_AUDIENCE)
    return TokenRules(
        issuer=_value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_EXPECTED_ISSUER) or None,
        audiences=frozenset(audiences),
        clock_skew_seconds=_value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS),
        subject_claim=_value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_SUB_CLAIM_NAME).strip(),
        roles_claim=_value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME).strip(),
        requires_issued_at=True,
    )


# -- this node's own token --------------------------------------------------------------------------------


def retrieval_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    """The setting that keeps this node from getting a token for a listener, and why; or None."""
    problem = _jaas_problem(layers, listener_name)
    if problem is not None:
        return problem
    handler_setting: Setting[str | None] = broker_settings.SASL_LOGIN_CALLBACK_HANDLER_CLASS
    handler = _value(layers, listener_name, handler_setting)
    if handler is not None and handler not in LOGIN_HANDLERS:
        known = ", ".join(sorted(LOGIN_HANDLERS))
        return handler_setting.name, f"{handler} can't be loaded, name one of {known}, or leave it out"
    retriever_setting = broker_settings.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS
    retriever = _value(layers, listener_name, retriever_setting)
    if retriever not in JWT_RETRIEVERS:
        known = ", ".join(sorted(JWT_RETRIEVERS))
        return retriever_setting.name, f"{retriever} is not served, name one of {known}"
    setting = broker_settings.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL
    url = _value(layers, listener_name, setting)
    if not url:
        return setting.name, f"nodes log in to each other at listener {listener_name} by tokens: it is needed"
    path = token_file(url)
    if path is None:
        if not is_token_endpoint(url):
            return setting.name, "it must be https://HOST…, or file:///PATH"
        if _sends_assertions(layers, listener_name):
            problem = _assertion_problem(layers, listener_name)
            if problem is not None:
                return problem
        elif not all(_client(layers, listener_name)):
            name = broker_settings.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID.name
            return name, "this node gets tokens for it and sasl.oauthbearer.client.credentials.client.secret"
    return _allowed_problem(layers, setting.name, url, None if path is None else str(path))


def token_source(layers: BrokerLayers, listener_name: str) -> TokenSource:
    """Where this node gets its tokens for a listener, whose settings are good. Raises JaasError."""
    url = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL) or ""
    path = token_file(url)
    if path is not None:
        return TokenFile(path)
    options = jaas_options(layers, listener_name)
    client_id, secret = _client(layers, listener_name)
    scope = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_SCOPE) or options.get("scope")
    ca_location = options.get(_TRUSTSTORE)
    if not _sends_assertions(layers, listener_name):
        return ClientCredentials(url, client_id, secret, scope, ca_location)
    is_grant = _is_jwt_bearer(layers, listener_name)
    named = None if is_grant else client_id or None
    return AssertionGrant(url, _assertion(layers, listener_name), not is_grant, named, scope, ca_location)


def _is_jwt_bearer(layers: BrokerLayers, listener_name: str) -> bool:
    return _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS) == JWT_BEARER


def _sends_assertions(layers: BrokerLayers, listener_name: str) -> bool:
    """Whether assertions are exchanged for tokens (KIP-1139), or stand for this node's secret (KIP-1258)."""
    return _is_jwt_bearer(layers, listener_name) or any(
        _value(layers, listener_name, setting) is not None
        for setting in (
            broker_settings.SASL_OAUTHBEARER_ASSERTION_FILE,
            broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS,
        )
    )


def _assertion_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    used: tuple[Setting[str | None], ...] = (broker_settings.SASL_OAUTHBEARER_ASSERTION_FILE,)
    if not _value(layers, listener_name, used[0]):
        key: Setting[str | None] = broker_settings.SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE
        if not _value(layers, listener_name, key):
            return key.name, f"assertions are signed with it; it or {used[0].name} is needed"
        used = (key, broker_settings.SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE)
    for setting in used:
        path = _value(layers, listener_name, setting)
        if path and (problem := _allowed_problem(layers, setting.name, path, path)) is not None:
            return problem
    return None


def _assertion(layers: BrokerLayers, listener_name: str) -> Assertion:
    def value(setting: Setting[T]) -> T:
        return _value(layers, listener_name, setting)

    file = value(broker_settings.SASL_OAUTHBEARER_ASSERTION_FILE)
    if file:
        return AssertionFile(Path(file))
    claims = {
        "aud": value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD),
        "iss": value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS),
        "sub": value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB),
    }
    passphrase = value(broker_settings.SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE)
    template = value(broker_settings.SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE)
    return SignedAssertion(
        Path(value(broker_settings.SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE) or ""),
        value(broker_settings.SASL_OAUTHBEARER_ASSERTION_ALGORITHM).upper(),
        None if passphrase is None else passphrase.value,
        tuple((name, claim) for name, claim in claims.items() if claim is not None),
        value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS),
        value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS),
        value(broker_settings.SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE),
        None if template is None else Path(template),
    )


def _client(layers: BrokerLayers, listener_name: str) -> tuple[str, str]:
    """The id and the secret of this node at the provider: of settings, else of the login's options."""
    options = jaas_options(layers, listener_name)
    client_id = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID)
    secret = _value(layers, listener_name, broker_settings.SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET)
    return (
        client_id or options.get("clientId", ""),
        secret.value if secret is not None and secret.value else options.get("clientSecret", ""),
    )


# -- both -------------------------------------------------------------------------------------------------


def _jaas_problem(layers: BrokerLayers, listener_name: str) -> Problem | None:
    try:
        jaas_options(layers, listener_name)
    except JaasError as error:
        return jaas_setting_name(listener_name, OAUTHBEARER), str(error)
    return None


def _allowed_problem(layers: BrokerLayers, name: str, url: str, path: str | None) -> Problem | None:
    """An address or a file that the operator's list leaves out."""
    setting = ALLOWED_URLS if path is None else ALLOWED_FILES
    listed = layers[setting]
    if listed is None or (path or url) in {each.strip() for each in listed.split(",")}:
        return None
    return name, f"{setting.name} does not have it"
