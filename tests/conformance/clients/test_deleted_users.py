"""An open connection of a deleted SCRAM user lives as long as its session, on ottla as on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client.access import Address, ClusterAccess
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.servers.cluster import free_port
from support.servers.sasl_brokers import scram_kafka, scram_ottla

TIMEOUT_S = 30
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
# Sessions by the second mechanism end, those by the first do not.
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": "3000",
    "connection.failed.authentication.delay.ms": "0",
}


async def connect(port: int, mechanism: str) -> NodeConnection:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "carol",
        "sasl.password": "secret",
    }
    access = ClusterAccess(f"127.0.0.1:{port}", properties)
    return await NodeConnection.to(Address("127.0.0.1", port), access.connection())


async def is_served(connection: NodeConnection) -> bool:
    try:
        answer = await connection.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    except ConnectionLost:
        return False
    return len(answer.brokers) == 1


async def until_refused(port: int, mechanism: str) -> None:
    """Return when the broker knows that the user is gone."""
    while True:
        try:
            connection = await connect(port, mechanism)
        except NodeRefusesUser:
            return
        connection.hang_up()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(scram_ottla, id="ottla"),
        pytest.param(scram_kafka, id="kafka", marks=[pytest.mark.java, pytest.mark.long]),
    ],
)
def test_a_connection_of_a_deleted_user_is_served_until_its_session_ends(
    start: Callable[[Path, int, Mapping[str, str]], AbstractContextManager[str]], tmp_path: Path
) -> None:
    port = free_port()

    async def story(admin: AdminClient) -> None:
        lasting, ending = [await connect(port, mechanism) for mechanism in MECHANISMS]
        assert await is_served(lasting) and await is_served(ending)
        for name, mechanism in MECHANISMS.items():
            deleted = admin.alter_user_scram_credentials([UserScramCredentialDeletion("carol", mechanism)])
            await asyncio.to_thread(deleted["carol"].result, TIMEOUT_S)
            await until_refused(port, name)
        assert await is_served(lasting)
        while await is_served(ending):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert await is_served(lasting)
        lasting.hang_up()

    with start(tmp_path, port, SETTINGS) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for mechanism in MECHANISMS.values():
            upsertion = UserScramCredentialUpsertion("carol", ScramCredentialInfo(mechanism, 4096), b"secret")
            admin.alter_user_scram_credentials([upsertion])["carol"].result(TIMEOUT_S)
        asyncio.run(asyncio.wait_for(story(admin), TIMEOUT_S))
