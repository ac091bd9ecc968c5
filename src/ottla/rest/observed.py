"""The REST Proxy's metrics and its check of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser
from ottla.config.settings import Settings
from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.health import Check, Verdict
from ottla.metrics.tables import rest as table
from ottla.protocol.errors import ProtocolError
from ottla.rest.caller_proxies import CallerProxies
from ottla.rest.figures import ApiVersion, RestFigures
from ottla.rest.proxy import Proxy
from ottla.rest.records.producing import MAX_IN_FLIGHT
from ottla.rest.settings import BOOTSTRAP_SERVERS, CALLERS, CLIENT_PREFIX, CONSUMER_INSTANCES
from ottla.web.confluent_families import confluent_families
from ottla.web.request_figures import RequestFigures

REACH_SECONDS: Final = 3.0
"""For all brokers of the setting together; a check has five."""


@dataclass(frozen=True, slots=True)
class RestParts:
    """The parts that the metrics are read from. callers: where callers act as themselves."""

    settings: Settings
    figures: RestFigures
    proxy: Proxy | None
    callers: CallerProxies | None

    @property
    def proxies(self) -> Sequence[Proxy]:
        """Those that there are."""
        if self.callers is not None:
            return self.callers.proxies
        return [] if self.proxy is None else [self.proxy]


def rest_families(requests: RequestFigures, parts: RestParts) -> Iterator[Family]:
    """All metrics of the proxy."""
    yield from confluent_families(table.HTTP, requests)
    figures, proxies = parts.figures, parts.proxies
    producing = [each.producing for each in proxies]
    yield by_label(table.RECORDS_PRODUCED, {one.value: figures.produced[one] for one in ApiVersion})
    yield by_label(table.RECORDS_FAILED, {one.value: figures.failed[one] for one in ApiVersion})
    yield single(table.RECORDS_WAITING, sum(each.waiting for each in producing))
    yield single(table.RECORDS_WAITING_LIMIT, MAX_IN_FLIGHT * len(producing))
    yield single(table.PRODUCERS, len(producing))
    yield single(table.PRODUCER_RESTARTS, figures.producers_replaced)
    yield single(table.STREAMS_OPEN, sum(each.streams.count for each in producing))
    yield single(table.WORK_BYTES, sum(each.work.held_bytes for each in producing))
    yield single(table.WORK_LIMIT_BYTES, sum(each.work.limit_bytes for each in producing))
    yield from _consumers(parts)
    if parts.callers is not None:
        yield single(table.CALLERS, len(proxies))
        yield single(table.CALLERS_LIMIT, parts.settings[CALLERS])


def _consumers(parts: RestParts) -> Iterator[Family]:
    figures = parts.figures
    instances = [each.instances for each in parts.proxies]
    live, leaving = sum(each.live for each in instances), sum(each.leaving for each in instances)
    yield by_label(table.CONSUMER_INSTANCES, {"live": live, "leaving": leaving})
    yield single(table.CONSUMER_INSTANCES_LIMIT, parts.settings[CONSUMER_INSTANCES] * len(instances))
    yield single(table.CONSUMER_INSTANCES_MADE, figures.made)
    yield single(table.CONSUMER_INSTANCES_EXPIRED, figures.expired)
    yield single(table.CONSUMER_READS, figures.reads)
    yield single(table.CONSUMER_READS_ACTIVE, figures.reads_active)
    yield single(table.RECORDS_CONSUMED, figures.consumed)
    yield single(table.CONSUMER_COMMITS, figures.commits)
    yield single(table.READ_BYTES, sum(each.room.taken_bytes for each in instances))
    yield single(table.READ_LIMIT_BYTES, sum(each.room.capacity_bytes for each in instances))


def rest_checks(settings: Settings, *, as_callers: bool) -> list[Check]:
    """Whether a broker answers. as_callers: the proxy itself has no login of its own."""
    access = ClusterAccess(settings[BOOTSTRAP_SERVERS], settings.with_prefix(CLIENT_PREFIX))
    return [Check("rest-cluster", lambda: asyncio.run(_reached(access, as_callers)), blocks=True)]


async def _reached(access: ClusterAccess, as_callers: bool) -> Verdict:
    """Whether one of the brokers that the settings name answers, with the proxy's own login if it has one."""
    problem = "no broker is named"
    addresses = access.addresses()
    for address in addresses:
        try:
            async with asyncio.timeout(REACH_SECONDS / len(addresses)):
                if as_callers:
                    _, writer = await asyncio.open_connection(address.host, address.port)
                    writer.close()
                else:
                    connection = await NodeConnection.to(address, access.connection())
                    await connection.close()
        except TimeoutError:
            problem = f"the broker at {address} has not answered in time"
        except (ConnectionLost, NodeRefusesUser, ProtocolError, OSError) as found:
            problem = f"the broker at {address}: {found}"
        else:
            return Verdict(True, f"the broker at {address} answers")
    return Verdict(False, problem)
