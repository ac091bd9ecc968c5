"""The first users of a cluster in its directory, as kafka-storage format --add-scram writes them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.controller.metadata_snapshots import read_snapshot
from ottla.core.decisions.first_users import first_users
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from support.nodes.in_process import running_broker
from support.nodes.sasl import connect_with_sasl, log_in
from support.servers.apache_kafka import format_directory

pytestmark = [pytest.mark.java, pytest.mark.slow]

#: With salts, so that both make the same keys.
USERS = (
    'SCRAM-SHA-256=[name=alice,password="a b=c",salt="c29tZSBzYWx0IG9mIHR3ZW50eQ=="]',
    'SCRAM-SHA-512=[name="bob",password=secret,iterations=8192,salt="c29tZSBzYWx0IG9mIHR3ZW50eQ=="]',
)


def test_the_users_of_kafkas_formatting_are_ours(tmp_path: Path) -> None:
    data = tmp_path / "logs"
    properties = tmp_path / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = [word for user in USERS for word in ("--add-scram", user)]
    format_directory(properties, "--standalone", *words)

    # Kafka 4.4 has them in the first snapshot, beside the voters; before, they were in bootstrap.checkpoint
    records = [each for file in data.rglob("*.checkpoint") for each in read_snapshot(file).records]
    theirs = [each for each in records if isinstance(each, UserScramCredentialRecord)]
    assert theirs == first_users(";".join(USERS), bytes)

    async def main() -> None:
        ours = {
            **settings,
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "controller.quorum.bootstrap.servers": "",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "connection.failed.authentication.delay.ms": "0",
        }
        async with running_broker(data, ours) as broker:
            client = await connect_with_sasl(broker)
            assert (await log_in(client, "alice", "a b=c")).error_code == 0
            other = await connect_with_sasl(broker)
            refused = await log_in(other, "alice", "a b=d")
            assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            client.close()

    asyncio.run(asyncio.wait_for(main(), 60))
