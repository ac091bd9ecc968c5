"""The TLS of a node: of its listeners, and of its connections to other nodes; made again when it changes.

Keys, certificates and authorities come from files and from settings, and both may change while the node runs.
New connections have what is new, open ones stay as they are. New material that can't be used is told in the
log, and the former stays in force. As in Kafka, a new certificate has the names of the former one, unless
ssl.allow.dn.changes and ssl.allow.san.changes say otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.broker.config import SSL_PRINCIPAL_SPIFFE
from ottla.broker.listeners import SASL_SSL, TLS_PROTOCOLS, Listener
from ottla.broker.network.connection import CloseConnection
from ottla.broker.network.context import ANONYMOUS
from ottla.broker.tls_settings import (
    checks_host,
    principal_mapper,
    server_tls,
    tls_problem,
)
from ottla.config.errors import ConfigError
from ottla.core.security.principals import certificate_principal
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers
from ottla.security.certificate_names import MalformedCertificate, names_of_der, names_of_pem
from ottla.security.distinguished_names import MalformedName, rfc2253_name
from ottla.security.key_stores import KeyStoreError, read_identity
from ottla.security.principal_mapping import InvalidPrincipal
from ottla.security.server_tls import ServerTls
from ottla.security.watched_files import file_signs

log = logging.getLogger("ottla.broker")

LOOK_SECONDS: Final = 2.0
"""How often files of keys and certificates are looked at."""
KEPT_PRINCIPALS: Final = 1_000


class HasLayers(Protocol):
    """The configuration of a node."""

    @property
    def layers(self) -> BrokerLayers:
        """The settings that hold now."""
        ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The settings of which the material of a listener is made."""

    tls: ServerTls
    checks_host: bool
    allows_other_subject: bool
    allows_other_alternative_names: bool


@dataclass(frozen=True, slots=True)
class _Material:
    """The contexts of a listener, and its chain of certificates with the key, as PEM.

    server: None where the node does not listen. client: None where it does not connect.
    """

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None
    chain: bytes | None


class ListenerMaterial:
    """The TLS of one listener, and of connections to the listeners of its name on other nodes."""

    def __init__(self, config: HasLayers, listener: Listener, *, listens: bool, connects: bool) -> None:
        """Raises KeyStoreError."""
        self._config = config
        self._listener = listener
        self._listens = listens
        self._connects = connects
        self._wanted = self._read_settings(config.layers)
        self._signs = file_signs(self._wanted.tls.paths)
        self._material = self._make(self._wanted, None)
        self._failed = False
        self._told = ""
        self._principals: OrderedDict[tuple[BrokerLayers, bytes], str] = OrderedDict()

    @property
    def server_context(self) -> ssl.SSLContext:
        """The context for a new connection of a client."""
        assert self._material.server is not None
        return self._material.server

    @property
    def client_context(self) -> ssl.SSLContext:
        """The context for a new connection to another node."""
        assert self._material.client is not None
        return self._material.client

    def principal(self, certificate: bytes | None) -> str:
        """The principal of a client with this certificate in DER, or with none. Raises CloseConnection."""
        if certificate is None or self._listener.security_protocol == SASL_SSL:
            return ANONYMOUS
        key = self._config.layers, certificate
        found = self._principals.get(key)
        if found is None:
            found = self._principals[key] = self._name(certificate)
            if len(self._principals) > KEPT_PRINCIPALS:
                self._principals.popitem(last=False)
        return found

    def _name(self, certificate: bytes) -> str:
        layers = self._config.layers
        try:
            names = names_of_der(certificate)
            found = certificate_principal(
                rfc2253_name(names.subject),
                names.uris,
                principal_mapper(layers, self._listener),
                use_spiffe_id=layers[SSL_PRINCIPAL_SPIFFE],
            )
        except (MalformedCertificate, MalformedName, InvalidPrincipal) as problem:
            raise CloseConnection(f"its certificate gives no principal: {problem}") from None
        return str(found)

    def check(self, layers: BrokerLayers) -> None:
        """Check that the material of these settings could be used. Raises KeyStoreError; reads files."""
        problem = tls_problem(layers, self._listener)
        if problem is not None:
            raise KeyStoreError(f"{problem[0]}: {problem[1]}")
        wanted = self._read_settings(layers)
        if wanted != self._wanted or self._has_changed_files(wanted):
            self._make(wanted, self._material)

    def refresh(self) -> None:
        """Take over what has changed, if it can be used; reads files, and may run in a thread."""
        wanted = self._read_settings(self._config.layers)
        if not self._failed and wanted == self._wanted and not self._has_changed_files(wanted):
            return
        # Taken before the files are read: a change meanwhile is seen the next time.
        signs = file_signs(wanted.tls.paths)
        try:
            material = self._make(wanted, self._material)
        except KeyStoreError as problem:
            self._failed = True
            if str(problem) != self._told:
                self._told = str(problem)
                log.error(
                    "new TLS keys or certificates can't be used, the former stay listener=%s reason=%s",
                    self._listener.name,
                    problem,
                )
            return
        if file_signs(wanted.tls.paths) != signs:
            # A file has changed while it was read twice: contexts of one certificate, and the names that were
            # checked of another, would be in force. The next look makes all of it again.
            self._failed = True
            return
        self._wanted, self._signs, self._material = wanted, signs, material
        self._failed, self._told = False, ""
        log.info("new TLS keys or certificates are used from now on listener=%s", self._listener.name)

    def _has_changed_files(self, wanted: _Wanted) -> bool:
        return file_signs(wanted.tls.paths) != self._signs

    def _read_settings(self, layers: BrokerLayers) -> _Wanted:
        name = self._listener.name
        return _Wanted(
            server_tls(layers, self._listener),
            checks_host(layers, self._listener),
            layers.for_listener(name, broker_settings.SSL_ALLOW_DN_CHANGES),
            layers.for_listener(name, broker_settings.SSL_ALLOW_SAN_CHANGES),
        )

    def _make(self, wanted: _Wanted, former: _Material | None) -> _Material:
        tls = wanted.tls
        server = tls.context() if self._listens else None
        client = tls.peer_context(checks_host=wanted.checks_host) if self._connects else None
        chain = read_identity(tls.identity).pem if tls.identity.is_given else None
        if former is not None and former.chain is not None:
            if chain is None:
                raise KeyStoreError("a key and its certificate can be exchanged, not removed")
            if chain != former.chain:
                _require_same_names(wanted, former.chain, chain)
        return _Material(server, client, chain)


def _require_same_names(wanted: _Wanted, former: bytes, new: bytes) -> None:
    try:
        before, after = names_of_pem(former), names_of_pem(new)
        subjects = rfc2253_name(before.subject), rfc2253_name(after.subject)
    except (MalformedCertificate, MalformedName) as problem:
        raise KeyStoreError(f"the names of the certificate can't be read: {problem}") from None
    if subjects[0] != subjects[1] and not wanted.allows_other_subject:
        raise KeyStoreError(
            f"the new certificate has another subject: {subjects[1]}, not {subjects[0]} "
            f"({broker_settings.SSL_ALLOW_DN_CHANGES.name}=true allows it)"
        )
    if before.alternative_names - after.alternative_names and not wanted.allows_other_alternative_names:
        missing = ", ".join(sorted(before.alternative_names - after.alternative_names))
        raise KeyStoreError(
            f"the new certificate lacks alternative names of the former: {missing} "
            f"({broker_settings.SSL_ALLOW_SAN_CHANGES.name}=true allows it)"
        )


class NodeTls:
    """The TLS of all listeners of a node, and towards other nodes."""

    def __init__(
        self, config: HasLayers, listening: Iterable[Listener], connecting: Iterable[Listener]
    ) -> None:
        """listening: the node's listeners. connecting: those by which it reaches other nodes.

        Raises ConfigError for material that can't be used.
        """
        own = {each.name: each for each in listening if each.security_protocol in TLS_PROTOCOLS}
        others = {each.name: each for each in connecting if each.security_protocol in TLS_PROTOCOLS}
        self._changed = asyncio.Event()
        self._by_listener: dict[str, ListenerMaterial] = {}
        for name, listener in (others | own).items():
            try:
                self._by_listener[name] = ListenerMaterial(
                    config, listener, listens=name in own, connects=name in others
                )
            except KeyStoreError as problem:
                raise ConfigError(f"listener {name}: {problem}") from None

    def of_listener(self, name: str) -> ListenerMaterial | None:
        """The TLS of the listener of this name, None if it has none."""
        return self._by_listener.get(name)

    def check(self, layers: BrokerLayers) -> None:
        """Check that all listeners could work with these settings. Raises KeyStoreError; reads files."""
        for each in self._by_listener.values():
            each.check(layers)

    def settings_changed(self) -> None:
        """Look at the settings soon."""
        self._changed.set()

    async def run(self) -> None:
        """Look at settings and files for as long as the node runs."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)
            self._changed.clear()
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Take over what has changed; blocks."""
        for each in self._by_listener.values():
            each.refresh()
