"""Tries the advertised listeners: a connection each, and where they have TLS a handshake."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ottla.client.access import Address, ConnectionSettings
from ottla.client.admin.acls import Operation
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser, connect_problem
from ottla.doctor.reading.drafts import Draft
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import BrokerView, Certificate, ListenerView, Settings, value_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterResponse

AT_ONCE: Final = 50
MOST_LISTENERS: Final = 500
TRY_PART: Final = 0.3
"""The part of the whole time that one listener may take."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


async def read_listeners(look: Look, draft: Draft) -> tuple[ListenerView, ...]:
    """The listeners for clients of all live brokers, each tried once."""
    cluster = await look.need("cluster")
    settings: Mapping[int, Settings] | None = await look.have("broker_settings")
    protocol = look.access.properties.get("security.protocol", "PLAINTEXT").upper()
    found: list[ListenerView] = []
    for node in cluster.live():
        broker = cluster.brokers[node]
        own = None if settings is None else settings.get(node)
        if own is None:
            found.append(ListenerView(node, protocol, protocol, broker.host, broker.address, True))
        else:
            found += _advertised(broker, own)
    if settings is None:
        draft.left_out.append("of each broker only the listener was tried that this client came in by")
    if len(found) > MOST_LISTENERS:
        draft.left_out.append(f"{len(found) - MOST_LISTENERS:,} listeners were not tried")
        del found[MOST_LISTENERS:]
    turns = asyncio.Semaphore(AT_ONCE)
    seconds = max(1.0, look.options.seconds * TRY_PART)
    return tuple(await asyncio.gather(*(_tried(one, turns, seconds) for one in found)))


def _advertised(broker: BrokerView, settings: Settings) -> Iterator[ListenerView]:
    """The listeners that a broker's settings tell, without those of controllers."""
    bound = dict(_listeners(value_of(settings, "listeners") or ""))
    told = dict(_listeners(value_of(settings, "advertised.listeners") or "")) or bound
    controllers = {
        name.strip().upper() for name in (value_of(settings, "controller.listener.names") or "").split(",")
    }
    protocols = dict(_protocols(value_of(settings, "listener.security.protocol.map") or ""))
    for name, address in told.items():
        if name in controllers:
            continue
        listening = bound.get(name, address)
        place = Address(address.host or broker.host, address.port or broker.port)
        yield ListenerView(
            broker.node_id,
            name,
            protocols.get(name, name if name in PROTOCOLS else "PLAINTEXT"),
            listening.host or "0.0.0.0",
            place,
            place == broker.address,
        )


def _listeners(text: str) -> Iterator[tuple[str, Address]]:
    for each in text.split(","):
        name, found, address = each.strip().partition("://")
        host, _, port = address.rpartition(":")
        if found and port.isdecimal():
            yield name.upper(), Address(host.strip("[]"), int(port))


def _protocols(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        name, found, protocol = pair.strip().partition(":")
        if found:
            yield name.strip().upper(), protocol.strip().upper()


async def _tried(listener: ListenerView, turns: asyncio.Semaphore, seconds: float) -> ListenerView:
    """The listener with its certificate, or with the reason why it can't be reached."""
    host, port = listener.advertised
    tls = _trusting_all() if listener.protocol.endswith("SSL") else None
    async with turns:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(
                    host, port, ssl=tls, server_hostname=host if tls else None
                )
            shown = None if tls is None else _certificate(writer)
            anonymous = await _anonymous(listener, tls, seconds)
        except TimeoutError:
            return replace(listener, problem=f"no connection in {seconds:.0f} seconds")
        except (OSError, ValueError, UnicodeError) as problem:  # an SSLError is an OSError
            return replace(listener, problem=connect_problem(problem))
        finally:
            if writer is not None:
                writer.close()
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(1):
                        await writer.wait_closed()
    return replace(listener, certificate=shown, anonymous=anonymous)


async def _anonymous(
    listener: ListenerView, tls: ssl.SSLContext | None, seconds: float
) -> frozenset[str] | None:
    """The operations on the cluster that a client without a login may use; None if it gets no answer."""
    if listener.protocol.startswith("SASL"):
        return None
    settings = ConnectionSettings("ottla-doctor", tls, None)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    connection: NodeConnection | None = None
    try:
        async with asyncio.timeout(seconds):
            connection = await NodeConnection.to(listener.advertised, settings)
            answer: DescribeClusterResponse = await connection.ask(ApiKey.DESCRIBE_CLUSTER, 0, request)
    except (TimeoutError, OSError, ConnectionLost, NodeRefusesUser, ProtocolError, ValueError):
        return None
    finally:
        if connection is not None:
            connection.hang_up()
    told = answer.cluster_authorized_operations
    return frozenset(one.word for one in Operation if told >= 0 and told >> one & 1)


def _trusting_all() -> ssl.SSLContext:
    """A context that takes any certificate: it is looked at, and nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _certificate(writer: asyncio.StreamWriter) -> Certificate | None:
    from cryptography import x509

    connection: Any = writer.get_extra_info("ssl_object")
    shown = connection.getpeercert(binary_form=True)
    if shown is None:
        return None
    found = x509.load_der_x509_certificate(shown)
    return Certificate(
        found.subject.rfc4514_string(), _ms(found.not_valid_before_utc), _ms(found.not_valid_after_utc)
    )


def _ms(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1_000)
