"""The connection rates of addresses, from the metadata to this node's listeners (KIP-612).

A quota may name a host: its addresses are asked of the name service in a thread, as often as quotas change. A
host that can't be resolved is told in a line and is not limited.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.config import BrokerConfig
from ottla.broker.network.addresses import host_addresses, is_address, normal_address
from ottla.broker.network.server import Server
from ottla.core.image.image import MetadataImage
from ottla.core.quotas.address_rates import AddressRates
from ottla.core.quotas.entities import ip_limits
from ottla.core.settings import broker_settings

log = logging.getLogger("ottla.broker")

#: Starts a background task that has an owner.
Spawn = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]]


class AddressQuotas:
    """Gives the server the rates of addresses."""

    def __init__(self, config: BrokerConfig, server: Server, spawn: Spawn) -> None:
        samples = config[broker_settings.QUOTA_WINDOW_NUM]
        window_ms = config[broker_settings.QUOTA_WINDOW_SIZE_SECONDS] * 1000
        self._spawn = spawn
        self._rates = AddressRates(samples, window_ms)
        self._looking_up: asyncio.Task[None] | None = None
        server.limit_addresses(self._rates)

    def take_limits(self, image: MetadataImage) -> None:
        """Take over the quotas of the metadata; those of hosts once their addresses are known."""
        limits = {
            name if name is None or not is_address(name) else normal_address(name): rate
            for name, rate in ip_limits(image.client_quotas)
        }
        default = limits.pop(None, None)
        addresses = {name: rate for name, rate in limits.items() if name is not None and is_address(name)}
        self._rates.set_limits(addresses, default)
        if self._looking_up is not None:
            self._looking_up.cancel()
            self._looking_up = None
        hosts = {name: rate for name, rate in limits.items() if name is not None and name not in addresses}
        if hosts:
            self._looking_up = self._spawn("look-up-quota-hosts", self._look_up(addresses, hosts, default))

    async def _look_up(
        self, addresses: dict[str, float], hosts: dict[str, float], default: float | None
    ) -> None:
        for host, rate in hosts.items():
            try:
                found = await asyncio.to_thread(host_addresses, host)
            except (OSError, UnicodeError) as problem:
                log.warning("unknown host in a quota host=%s error=%s", host, problem)
                continue
            addresses |= {address: rate for address in found if address not in addresses}
            self._rates.set_limits(addresses, default)
