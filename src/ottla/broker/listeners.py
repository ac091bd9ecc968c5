"""The addresses of a node, for itself and for clients: `listeners`, `advertised.listeners` and their kin.

The listeners named in controller.listener.names belong to the controller, the others to the broker. A node
has those of its roles and no others; a single node with both roles needs no controller listener, because no
other node looks for its controller.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.config.settings import Settings
from ottla.core.settings import broker_settings

PLAINTEXT = "PLAINTEXT"
SSL = "SSL"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
#: By their numbers in the metadata.
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
TLS_PROTOCOLS: Final = frozenset({SSL, SASL_SSL})
SASL_PROTOCOLS: Final = frozenset({SASL_PLAINTEXT, SASL_SSL})
META_ADDRESSES = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})
DEFAULT_CONTROLLER_PORT = 9093
BROKER: Final = "broker"
CONTROLLER: Final = "controller"

_LISTENER: Final = re.compile(r"(?P<name>[^:/\s]+)://(?P<host>\[[^\]]*\]|[^:\[\]]*):(?P<port>\d{1,5})")
# Compiled when it is first needed: a node that is alone has no such addresses.
_ADDRESS: Final = r"(?P<host>\[[^\]]+\]|[^:\[\]\s]+):(?P<port>\d{1,5})"


class Listener(NamedTuple):
    """One endpoint. An empty host is every interface; port 0 is any free one."""

    name: str
    host: str
    port: int
    security_protocol: str = PLAINTEXT


class Listeners(NamedTuple):
    """All endpoints of a node, checked against each other."""

    broker: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    advertised_controllers: tuple[Listener, ...]
    controller: Listener
    inter_broker: Listener
    """The listener by which brokers reach each other. A controller alone has none that is used."""

    @property
    def all(self) -> tuple[Listener, ...]:
        """The listeners of the broker and of the controller."""
        return *self.broker, *self.controllers


def read_listeners(settings: Settings, roles: frozenset[str]) -> Listeners:
    """The listeners of a node with these roles. Raises ConfigError."""
    controller_names = tuple(name.upper() for name in settings[broker_settings.CONTROLLER_LISTENER_NAMES])
    mapped = _protocol_map(settings)
    protocols = dict.fromkeys(controller_names, PLAINTEXT) | mapped
    texts: tuple[str, ...] = settings[broker_settings.LISTENERS]
    listeners = _parse(settings, "listeners", texts, protocols)
    own = tuple(listener for listener in listeners if listener.name not in controller_names)
    controllers = tuple(listener for listener in listeners if listener.name in controller_names)
    advertised = _advertised(settings, controller_names, listeners, protocols)
    clients = tuple(listener for listener in advertised if listener.name not in controller_names)
    advertised_controllers = tuple(
        sorted(
            (listener for listener in advertised if listener.name in controller_names),
            key=lambda listener: controller_names.index(listener.name),
        )
    )
    _require_listeners_of_roles(settings, roles, own, controllers, clients)
    if BROKER not in roles or CONTROLLER not in roles or controllers:
        _require_chosen_protocols(settings, mapped, controller_names, listeners)
    substitute = Listener(
        controller_names[0],
        clients[0].host if clients else "",
        DEFAULT_CONTROLLER_PORT,
        protocols[controller_names[0]],
    )
    return Listeners(
        broker=own,
        advertised=clients,
        controllers=controllers,
        advertised_controllers=advertised_controllers,
        controller=advertised_controllers[0] if advertised_controllers else substitute,
        inter_broker=_inter_broker(settings, own) if own else Listener(PLAINTEXT, "", 0),
    )


def _require_listeners_of_roles(
    settings: Settings,
    roles: frozenset[str],
    own: Sequence[Listener],
    controllers: Sequence[Listener],
    clients: Sequence[Listener],
) -> None:
    if BROKER in roles:
        if not own:
            raise settings.refusal(
                "listeners", "a broker needs a listener that is not one of controller.listener.names"
            )
        if not clients:
            raise settings.refusal(
                "advertised.listeners", "a broker needs one that is not of controller.listener.names"
            )
    if CONTROLLER not in roles and controllers:
        raise settings.refusal(
            "listeners",
            f"{controllers[0].name} is one of controller.listener.names, and process.roles has no "
            "controller: leave it out, other nodes' controllers listen there",
        )
    if BROKER not in roles:
        if not controllers:
            raise settings.refusal(
                "listeners", "a controller needs a listener that controller.listener.names names"
            )
        for listener in (*own, *clients):
            raise settings.refusal(
                "listeners" if listener in own else "advertised.listeners",
                f"{listener.name} is not one of controller.listener.names, and process.roles has no broker: "
                "leave it out",
            )


def _require_chosen_protocols(
    settings: Settings,
    mapped: Mapping[str, str],
    controller_names: Sequence[str],
    listeners: Sequence[Listener],
) -> None:
    """As in Kafka, controllers are PLAINTEXT by default only where all listeners are."""
    missing = next((each for each in controller_names if each not in mapped), None)
    protected = next((each for each in listeners if each.security_protocol != PLAINTEXT), None)
    if missing is not None and protected is not None:
        raise settings.refusal(
            "listener.security.protocol.map",
            f"it has no entry for controller listener {missing}, which listener {protected.name} with its "
            f"{protected.security_protocol} makes necessary",
        )


def _protocol_map(settings: Settings) -> dict[str, str]:
    name = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in settings[broker_settings.LISTENER_SECURITY_PROTOCOL_MAP].split(","):
        listener, separator, protocol = pair.strip().rpartition(":")
        if not separator or not listener:
            raise settings.refusal(name, f"{pair.strip()!r} is not NAME:PROTOCOL")
        if protocol.upper() not in PROTOCOLS:
            raise settings.refusal(name, f"{protocol} is not one of {', '.join(PROTOCOLS)}")
        if listener.upper() in protocols:
            raise settings.refusal(name, f"{listener} is given twice")
        protocols[listener.upper()] = protocol.upper()
    return protocols


def _parse(
    settings: Settings, setting: str, texts: Sequence[str], protocols: dict[str, str]
) -> tuple[Listener, ...]:
    listeners: list[Listener] = []
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise settings.refusal(setting, f"{text!r} is not NAME://host:port")
        name = match["name"].upper()
        protocol = protocols.get(name)
        if protocol is None:
            raise settings.refusal(setting, f"listener {name} has no entry in listener.security.protocol.map")
        listeners.append(Listener(name, match["host"].strip("[]"), int(match["port"]), protocol))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise settings.refusal(setting, "each listener must have a different name")
    if setting == "listeners":
        places = [(listener.host, listener.port) for listener in listeners if listener.port]
        if len(set(places)) != len(places):
            raise settings.refusal(setting, "each listener must have a different port")
    return tuple(listeners)


def _advertised(
    settings: Settings,
    controller_names: Sequence[str],
    listeners: tuple[Listener, ...],
    protocols: dict[str, str],
) -> tuple[Listener, ...]:
    """The advertised listeners; a controller's that is left out is advertised with its own address."""
    texts: tuple[str, ...] | None = settings[broker_settings.ADVERTISED_LISTENERS]
    if texts is None:
        setting, advertised = "listeners", listeners
    else:
        setting = "advertised.listeners"
        given = _parse(settings, setting, texts, protocols)
        names = {listener.name for listener in given}
        left_out = (each for each in listeners if each.name in controller_names and each.name not in names)
        advertised = (*given, *left_out)
    listening = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in listening:
            raise settings.refusal(setting, f"{listener.name} is not one of this node's listeners")
        if listener.host in META_ADDRESSES:
            raise settings.refusal(
                setting,
                f"no client can connect to {listener.host}: set advertised.listeners to other addresses",
            )
    return tuple(
        listener if listener.host else listener._replace(host=socket.gethostname()) for listener in advertised
    )


def _inter_broker(settings: Settings, own: Sequence[Listener]) -> Listener:
    setting = "inter.broker.listener.name"
    name = settings[broker_settings.INTER_BROKER_LISTENER_NAME]
    if name is None:
        protocol = settings[broker_settings.SECURITY_INTER_BROKER_PROTOCOL]
        named = next((each for each in own if each.security_protocol == protocol), None)
        if named is None and settings.is_given("security.inter.broker.protocol"):
            raise settings.refusal(
                "security.inter.broker.protocol", f"no listener of the broker speaks {protocol}"
            )
        return named or own[0]
    if settings.is_given("security.inter.broker.protocol"):
        raise settings.refusal(
            setting, "set only one of inter.broker.listener.name and security.inter.broker.protocol"
        )
    found = next((each for each in own if each.name == name.upper()), None)
    if found is None:
        raise settings.refusal(setting, f"{name} is not one of the broker's listeners")
    return found


def parse_address(text: str) -> tuple[str, int] | None:
    """(host, port) of `host:port`, or None."""
    match = re.fullmatch(_ADDRESS, text)
    if match is None or not 0 < int(match["port"]) <= 65535:
        return None
    return match["host"].strip("[]"), int(match["port"])
