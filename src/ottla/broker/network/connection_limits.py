"""How many connections a node takes: in all, a listener, an address, a second; counted as Kafka does.

max.connections holds for all listeners of the broker, and a listener's own value (listener.name.<name>.) for
that one. At the limit no connection is refused: connections wait in the socket's backlog until others close.
The listener between brokers, where it is not the only one, is not subject to the limit of all: for each
connection that it takes above it, the one of another listener that was silent for longest is closed.
max.connections.per.ip refuses at once, and so does the rate of an address, which is a quota (KIP-612): such a
connection is closed when it could have been made. max.connection.creation.rate, of all and of a listener,
delays: the average of quota.window.num - 1 windows may reach it, and one connection is held back for one
window at most. The controller's listeners count by themselves.

Descriptors are a limit too: `descriptor_share` keeps some for logs, so that connections can't eat them all.
All values but the last are looked up each time, so that dynamic changes hold at once.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.config import BrokerConfig
from ottla.core.settings import broker_settings
from ottla.core.settings.broker_settings.server import parse_connection_overrides

if TYPE_CHECKING:
    from ottla.core.quotas.address_rates import AddressRates

if sys.platform != "win32":
    import resource

log = logging.getLogger("ottla.broker")

#: The descriptors that are kept from connections: for segments in use (storage/files.py), this node's own
#: connections, the rest.
RESERVED_DESCRIPTORS: Final = 512 + 128
UNLIMITED: Final = sys.maxsize


def descriptor_limit() -> int:
    """How many descriptors this process may have open."""
    if sys.platform == "win32":
        return UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Allow this process as many descriptors as it may have, as Java's virtual machine does at its start."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # a system with a smaller limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_share(limit: int) -> int:
    """How many of `limit` descriptors connections may have: half of few, all but the reserve of many."""
    return limit - min(RESERVED_DESCRIPTORS, limit // 2)


class CreationRate:
    """New connections against a rate: the average over `span_seconds` may reach it."""

    __slots__ = ("_at", "_level", "_longest_wait", "_span_seconds")

    def __init__(self, span_seconds: float, longest_wait: float) -> None:
        self._span_seconds = span_seconds
        self._longest_wait = longest_wait
        # Connections that count still; they fade at the rate itself.
        self._level = 0.0
        self._at = 0.0

    def take_back(self) -> None:
        """The connection that was counted last was not made."""
        self._level = max(0.0, self._level - 1.0)

    def count(self, rate: int, now: float) -> float:
        """Count a connection at `now`. Returns the seconds for which it has to wait."""
        self._level = max(0.0, self._level - rate * (now - self._at)) + 1.0
        self._at = now
        surplus = self._level - rate * self._span_seconds
        if surplus <= 0:
            return 0.0
        return min(surplus / rate, self._longest_wait) if rate else self._longest_wait


class ConnectionLimits:
    """Counts the connections of one kind of listeners, the broker's or the controller's."""

    def __init__(self, config: BrokerConfig, listener_names: Collection[str], share: int) -> None:
        self._config = config
        self._listener_names = listener_names
        self._share = share
        window = config[broker_settings.QUOTA_WINDOW_SIZE_SECONDS]
        span = window * max(1, config[broker_settings.QUOTA_WINDOW_NUM] - 1)
        self._rate = CreationRate(span, window)
        self._rates = {name: CreationRate(span, window) for name in listener_names}
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        """The connections that were taken since the start, by listener."""
        self.refused = 0
        """The connections that were closed because their address had too many."""
        self._overrides_text = ""
        self._overrides: Mapping[str, int] = {}
        self.total = 0
        self.address_rates: AddressRates | None = None
        """The rates of addresses, None while no quota limits any."""

    # -- limits -------------------------------------------------------------------------------------

    @property
    def max_connections(self) -> int:
        """Connections in all, as many as the descriptors allow."""
        return min(self._config[broker_settings.MAX_CONNECTIONS], self._share)

    def is_protected(self, listener_name: str) -> bool:
        """Whether this is the brokers' own way to each other, apart from the clients'."""
        return listener_name == self._config.inter_broker_listener_name and len(self._listener_names) > 1

    def has_slot(self, listener_name: str) -> bool:
        """Whether one more connection may be taken there."""
        own = self._config.layers.for_listener(listener_name, broker_settings.MAX_CONNECTIONS)
        if self._by_listener[listener_name] >= own:
            return False
        return self.is_protected(listener_name) or self.total < self.max_connections

    @property
    def excess(self) -> int:
        """How many connections of listeners that are not protected must go."""
        return max(0, self.total - self.max_connections)

    def delay(self, listener_name: str, now: float) -> float:
        """Count a new connection against the rates. Returns the seconds for which it has to wait."""
        setting = broker_settings.MAX_CONNECTION_CREATION_RATE
        own = self._rates[listener_name].count(self._config.layers.for_listener(listener_name, setting), now)
        if self.is_protected(listener_name):
            return own
        return max(own, self._rate.count(self._config[setting], now))

    def too_early_ms(self, listener_name: str, address: str, now: float) -> int:
        """By how much a connection is too early for its address's rate; 0 if it may be made.

        One that is too early is taken back from the rates that `delay` has counted it against.
        """
        if self.address_rates is None:
            return 0
        throttle_ms = self.address_rates.count(_normal(address), int(now * 1000))
        if throttle_ms:
            self._rates[listener_name].take_back()
            if not self.is_protected(listener_name):
                self._rate.take_back()
        return throttle_ms

    def limit_of_address(self, address: str) -> int:
        """How many connections an address may have."""
        text = self._config[broker_settings.MAX_CONNECTIONS_PER_IP_OVERRIDES]
        if text != self._overrides_text:
            self._overrides_text = text
            self._overrides = {
                address: most
                for host, most in parse_connection_overrides(text)
                for address in _addresses(host)
            }
        default = self._config[broker_settings.MAX_CONNECTIONS_PER_IP]
        return self._overrides.get(_normal(address), default) if self._overrides else default

    def open_at(self, listener_name: str) -> int:
        """The connections that a listener has."""
        return self._by_listener[listener_name]

    # -- counts -------------------------------------------------------------------------------------

    def add(self, listener_name: str, address: str) -> bool:
        """Count a connection; False if its address has too many, and it must be closed."""
        address = _normal(address)
        if self._by_address[address] >= self.limit_of_address(address):
            self.refused += 1
            return False
        self._by_address[address] += 1
        self._by_listener[listener_name] += 1
        self.made[listener_name] += 1
        self.total += 1
        return True

    def remove(self, listener_name: str, address: str) -> None:
        """A connection that was counted is gone."""
        address = _normal(address)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._by_listener[listener_name] -= 1
        self.total -= 1


def _normal(address: str) -> str:
    """One way to write an address, see addresses.py; nearly all are written so already."""
    if ":" not in address:
        return address
    from ottla.broker.network.addresses import normal_address

    return normal_address(address)


def _addresses(host: str) -> set[str]:
    """The addresses that an address or a name stands for; none for an unknown name."""
    from ottla.broker.network.addresses import host_addresses

    try:
        return host_addresses(host)
    except (OSError, UnicodeError) as problem:
        log.warning("unknown host in max.connections.per.ip.overrides host=%s error=%s", host, problem)
        return set()
