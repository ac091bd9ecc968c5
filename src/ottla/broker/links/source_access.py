"""The connections to a link's source: TLS and logins by the link's settings, as a Kafka client has them.

They are the connections that this node has to other nodes, with other credentials. `ssl.…` settings have the
names that brokers' have, so the link's settings are read as those of a listener.
"""

from __future__ import annotations

import ssl
from typing import Final

from ottla.broker.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS, Listener
from ottla.broker.peers.login import NodeLogin
from ottla.broker.peers.peers import PeerConnections
from ottla.broker.sasl_logins import SERVED_MECHANISMS, jaas_setting_name
from ottla.core.links.definition import InvalidLink, LinkDefinition
from ottla.core.settings.config_layers import BrokerLayers

_NAME: Final = "LINK"
_DEFAULT_MECHANISM: Final = "GSSAPI"
_JAAS: Final = "sasl.jaas.config"


class _Settings:
    """The settings of a link, as those of a listener of its own."""

    __slots__ = ("layers",)

    def __init__(self, layers: BrokerLayers) -> None:
        self.layers = layers


def connect_source(link: LinkDefinition, node_id: int) -> PeerConnections:
    """Connections by the link's settings; none is made yet. Reads files. Raises InvalidLink."""
    protocol = link.security_protocol
    login = _login(link) if protocol in SASL_PROTOCOLS else None
    client_id = f"ottla-link-{link.name}-{node_id}"
    if protocol not in TLS_PROTOCOLS:
        return PeerConnections(client_id, login)
    context = _tls(link)
    return PeerConnections(client_id, login, lambda: context)


def _login(link: LinkDefinition) -> NodeLogin:
    # Imported where it is used: a link without SASL does not pay for it.
    from ottla.broker.sasl_settings import user_and_password
    from ottla.broker.security.node_logins import node_login
    from ottla.config.jaas import JaasError
    from ottla.core.security.sasl.oauthbearer import OAUTHBEARER

    mechanism = link.settings.get("sasl.mechanism", _DEFAULT_MECHANISM)
    if mechanism not in SERVED_MECHANISMS:
        raise InvalidLink(f"sasl.mechanism {mechanism} is not one of {', '.join(SERVED_MECHANISMS)}")
    values = {name: value for name, value in link.settings.items() if name.startswith("sasl.")}
    jaas = values.pop(_JAAS, None)
    if jaas is not None:
        values[jaas_setting_name(_NAME, mechanism)] = jaas
    settings = _Settings(BrokerLayers(values))
    if mechanism != OAUTHBEARER:
        try:
            user_and_password(settings.layers, _NAME, mechanism)
        except JaasError as problem:
            raise InvalidLink(f"{_JAAS}: {problem}") from None
    else:
        from ottla.broker.oauthbearer_settings import retrieval_problem

        found = retrieval_problem(settings.layers, _NAME)
        if found is not None:
            raise InvalidLink(f"{found[0]}: {found[1]}")
    return node_login(settings, _NAME, mechanism)


def _tls(link: LinkDefinition) -> ssl.SSLContext:
    from ottla.broker.tls_settings import checks_host, server_tls, tls_problem
    from ottla.security.key_stores import KeyStoreError

    layers = BrokerLayers({name: value for name, value in link.settings.items() if name.startswith("ssl.")})
    listener = Listener(_NAME, "", 0, link.security_protocol)
    problem = tls_problem(layers, listener)
    if problem is not None:
        raise InvalidLink(f"{problem[0]}: {problem[1]}")
    try:
        return server_tls(layers, listener).peer_context(checks_host=checks_host(layers, listener))
    except (KeyStoreError, OSError) as unusable:
        raise InvalidLink(f"TLS towards the source: {unusable}") from None
