"""Three nodes that log in to each other, in one process: by each mechanism, and with one of them stopped."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.controller.topic_creation import create_topics
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics_request import CreatableTopic
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from support.nodes.in_process_cluster import BOTH, nodes
from support.nodes.sasl import connect_with_sasl, handshake, log_in, token

PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="secret" user_node="secret" user_alice="alice";'
)
SCRAM_LOGIN = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="node" password="secret";'
)


def settings_of(kind: str, directory: Path) -> dict[str, str]:
    """Both listeners ask for a login, whatever their names say."""
    mechanism = {"plain": "PLAIN", "scram": "SCRAM-SHA-512", "oauth": "OAUTHBEARER"}[kind]
    common = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        "connections.max.reauth.ms": "2000",
    }
    match kind:
        case "plain":
            return common | dict.fromkeys(map(JAAS.format, LISTENERS, ["plain"] * 2), PLAIN_LOGIN)
        case "scram":
            return (
                common
                | dict.fromkeys(map(JAAS.format, LISTENERS, ["scram-sha-512"] * 2), SCRAM_LOGIN)
                | {"ottla.format.add.scram": "SCRAM-SHA-512=[name=node,password=secret]"}
            )
        case _:
            provider = IdentityProvider()
            keys, token = directory / "keys.json", directory / "token"
            keys.write_text(provider.key_set())
            token.write_text(provider.token(sub="node"))
            return common | {
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
            }


LISTENERS = ("plaintext", "controller")
JAAS = "listener.name.{}.{}.sasl.jaas.config"


def in_sync(broker: Broker, topic: str) -> set[int]:
    found = broker.image.topics.get(topic)
    sets = [] if found is None else [set(each.isr) for each in found.partitions.values()]
    return set.intersection(*sets) if sets else set()


async def create(broker: Broker, topic: str) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=3, replication_factor=3)
    answer: Any = await create_topics(broker, [wanted])
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


@pytest.mark.parametrize(
    "kind",
    [pytest.param("plain", marks=pytest.mark.long), "scram", pytest.param("oauth", marks=pytest.mark.long)],
)
def test_nodes_log_in_to_each_other(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BOTH, 3: BOTH}, settings_of(kind, tmp_path)) as cluster:
            await cluster.start(1, 2, 3)
            await create(cluster.running[1], "orders")
            await cluster.until(lambda: in_sync(cluster.running[1], "orders") == {1, 2, 3})
            principals = {
                each.session.principal
                for broker in cluster.running.values()
                for each in (*broker.server._clients.connections, *broker.server._controllers.connections)
            }
            assert principals <= {"User:node", "User:ANONYMOUS"}  # the latter: not authenticated yet
            # a node without the login gets nowhere
            stranger = PeerConnections("stranger")
            with pytest.raises(PeerUnreachable):
                to = PeerAddress("127.0.0.1", cluster.ports[1][0])
                await stranger.ask("test", to, MetadataRequest(topics=[]), timeout_ms=3000)
            stranger.close()
            active = cluster.active
            assert active is not None
            await cluster.stop(active.node_id)
            left = next(iter(cluster.running.values()))
            await cluster.until(lambda: cluster.active is not None)
            await cluster.until(lambda: in_sync(left, "orders") == set(cluster.running))
            await cluster.start(active.node_id)
            await cluster.until(lambda: in_sync(left, "orders") == {1, 2, 3})
            # all of them at once: no node knows a leader then
            await cluster.stop(1, 2, 3)
            await cluster.start(1, 2, 3)
            await cluster.until(lambda: in_sync(cluster.running[1], "orders") == {1, 2, 3})

    asyncio.run(asyncio.wait_for(main(), 90))


def test_tokens_are_made_and_used_at_any_broker(tmp_path: Path) -> None:
    """With an authorizer, for which the nodes' user is a super user."""
    settings = {
        **settings_of("plain", tmp_path),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "delegation.token.secret.key": "of all nodes",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
    }

    async def main() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BOTH, 3: BOTH}, settings) as cluster:
            await cluster.start(1, 2, 3)
            active = cluster.active
            assert active is not None
            others = [broker for broker in cluster.running.values() if broker is not active]
            made: list[Any] = []
            for broker in cluster.running.values():
                alice = await connect_with_sasl(broker, "PLAINTEXT")
                await handshake(alice)
                assert (await token(alice, b"\0alice\0alice")).error_code == 0
                request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
                made.append(await alice.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, request))
                assert (made[-1].error_code, made[-1].principal_name) == (0, "alice")
                alice.close()
            await cluster.until(
                lambda: all(len(each.image.delegation_tokens) == 3 for each in cluster.running.values())
            )
            for broker, each in zip(others, made, strict=False):
                client = await connect_with_sasl(broker, "PLAINTEXT")
                password = base64.b64encode(each.hmac).decode()
                assert (await log_in(client, each.token_id, password, by_token=True)).error_code == 0
                renewal = RenewDelegationTokenRequest(hmac=each.hmac, renew_period_ms=-1)
                # asked of the broker, and of the controller as the broker would pass it on
                refused: Any = await client.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, renewal)
                assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
                context = RequestContext(
                    ApiKey.RENEW_DELEGATION_TOKEN,
                    2,
                    1,
                    "test",
                    Session("127.0.0.1", "PLAINTEXT", "User:alice", token_authenticated=True),
                )
                passed_on: Any = await broker.controller_channel.forward(context, renewal)
                assert passed_on.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
                client.close()

    asyncio.run(asyncio.wait_for(main(), 90))
