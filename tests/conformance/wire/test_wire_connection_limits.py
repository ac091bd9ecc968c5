"""How many connections a broker takes, on the wire: the same on ottla and on Apache Kafka."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.clients.wire import TIMEOUT_S, ConnectionClosed, WireClient, wait_for
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster, free_port
from support.servers.ottla_broker import OttlaBroker

OwnCluster = OttlaBroker | ApacheKafka
Start = Callable[..., AbstractContextManager[OwnCluster]]
SOFTWARE = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")
BROKER_RESOURCE, SET = 4, 0


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    """Closes the connections of a test."""
    with ExitStack() as stack:
        yield stack


def is_served(wire: WireClient) -> bool:
    """Whether a request is answered; False when the broker hangs up instead."""
    try:
        return bool(wire.call(SOFTWARE).error_code == ErrorCode.NONE)
    except (ConnectionClosed, BrokenPipeError, ConnectionResetError):
        return False


def has_answer(wire: WireClient, wait_s: float = 0.0) -> bool:
    return bool(select.select([wire.connection], [], [], wait_s)[0])


def change(wire: WireClient, node_id: int | None, settings: Mapping[str, str]) -> None:
    """Change settings of a broker, or of all by default."""
    resource = AlterConfigsResource(
        resource_type=BROKER_RESOURCE,
        resource_name="" if node_id is None else str(node_id),
        configs=[AlterableConfig(name=n, config_operation=SET, value=v) for n, v in settings.items()],
    )
    response = wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE, response.responses[0].error_message


def becomes_served(bootstrap: str) -> bool:
    with WireClient.connect(bootstrap) as wire:
        return is_served(wire)


def test_an_address_has_so_many_connections_and_no_more(
    cluster: Cluster, start_own: Start, connections: ExitStack
) -> None:
    with start_own(settings={"max.connections.per.ip": "3"}) as own:
        # given as many as are allowed
        first, second, third = (
            connections.enter_context(WireClient.connect(own.bootstrap)) for _ in range(3)
        )
        assert is_served(first) and is_served(second) and is_served(third)
        # then one more is sent away
        with WireClient.connect(own.bootstrap) as fourth:
            assert not is_served(fourth)
        # and taken once another has gone
        second.connection.close()
        wait_for(lambda: becomes_served(own.bootstrap))
        # when the limit is raised while the broker runs, for this address alone
        change(first, None, {"max.connections.per.ip.overrides": "127.0.0.1:20,::1:1"})
        wait_for(lambda: becomes_served(own.bootstrap))
        for _ in range(3):
            assert is_served(connections.enter_context(WireClient.connect(own.bootstrap)))
        # then others have the old one
        change(first, None, {"max.connections.per.ip.overrides": "10.0.0.1:20"})
        wait_for(lambda: not becomes_served(own.bootstrap))


def test_at_the_limit_of_all_a_connection_waits_until_another_goes(
    cluster: Cluster, start_own: Start, connections: ExitStack
) -> None:
    # Kafka's node needs some connections to its own controller, which has the same limit; and each of its
    # network threads closes the most silent of its own
    with start_own(settings={"max.connections": "8", "num.network.threads": "1"}) as own:
        # given as many as are allowed
        first, second, *others = (
            connections.enter_context(WireClient.connect(own.bootstrap)) for _ in range(8)
        )
        assert all(map(is_served, (first, second, *others)))
        # when one more connects and asks
        waiting = connections.enter_context(WireClient.connect(own.bootstrap))
        sent = waiting.send(SOFTWARE)
        # then nobody hangs up, and nobody answers
        assert not has_answer(waiting, 0.5) and is_served(first)
        second.connection.close()
        assert waiting.receive(SOFTWARE, sent).error_code == ErrorCode.NONE
        # when the limit is raised while one waits
        another = connections.enter_context(WireClient.connect(own.bootstrap))
        sent = another.send(SOFTWARE)
        assert not has_answer(another, 0.5)
        change(first, None, {"max.connections": "9"})
        assert another.receive(SOFTWARE, sent).error_code == ErrorCode.NONE
        # when it is lowered below what is there, the connection that was silent for longest is closed
        # (silence is measured in milliseconds: the others speak some of them later)
        assert is_served(waiting) and not has_answer(waiting, 0.05)
        assert all(map(is_served, (*others, another, first)))
        change(first, None, {"max.connections": "8"})
        assert waiting.is_closed_by_the_broker()
        assert all(map(is_served, (*others, another, first)))


def test_a_listener_has_a_limit_of_its_own_and_brokers_come_before_clients(
    cluster: Cluster, start_own: Start, connections: ExitStack
) -> None:
    port, inside, controllers = free_port(), free_port(), free_port()
    listeners = (
        f"PLAINTEXT://127.0.0.1:{port},INSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controllers}"
    )
    settings = {
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "num.network.threads": "1",
        "max.connections": "3",
        "listener.name.plaintext.max.connections": "2",
    }
    # ottla's option for the address would win over the setting
    listen = {"extra_arguments": ("--listen", listeners.removeprefix("PLAINTEXT://"))}
    with start_own(port=port, settings=settings, **(listen if cluster.name == "ottla" else {})) as own:
        # given a listener with its own, smaller number of connections
        first, second = (connections.enter_context(WireClient.connect(own.bootstrap)) for _ in range(2))
        assert is_served(first) and is_served(second)
        waiting = connections.enter_context(WireClient.connect(own.bootstrap))
        sent = waiting.send(SOFTWARE)
        assert not has_answer(waiting, 0.5)
        # when it may have more, and with it the number of all is reached
        change(first, 1, {"listener.name.plaintext.max.connections": "5"})
        assert waiting.receive(SOFTWARE, sent).error_code == ErrorCode.NONE
        # then the listener between brokers still takes one, and the silent client makes room
        assert is_served(first) and is_served(waiting)
        broker = connections.enter_context(WireClient.connect(f"127.0.0.1:{inside}"))
        assert is_served(broker)
        assert second.is_closed_by_the_broker()
        assert is_served(first) and is_served(waiting)


def test_idle_connections_are_closed(cluster: Cluster, start_own: Start) -> None:
    with (
        start_own(settings={"connections.max.idle.ms": "1000"}) as own,
        WireClient.connect(own.bootstrap) as wire,
    ):
        assert is_served(wire)
        wire.connection.settimeout(TIMEOUT_S)
        assert wire.is_closed_by_the_broker()
