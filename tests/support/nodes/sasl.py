"""Raw clients of a broker's SASL listener in the test's own process: handshakes, tokens, logins by SCRAM."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka.net.sasl.scram import ScramClient

from ottla.broker.broker import Broker
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from support.nodes.in_process import RawClient, connect

SASL_LISTENER = "SASL_PLAINTEXT"


async def connect_with_sasl(broker: Broker, listener: str = SASL_LISTENER) -> RawClient:
    """A connection that is not authenticated yet."""
    return RawClient(*await asyncio.open_connection("127.0.0.1", broker.ports[listener]))


async def handshake(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return await client.call(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))


async def token(client: RawClient, data: bytes, version: int = 2) -> Any:
    """The answer to a message of the exchange."""
    return await client.call(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=data))


async def log_in(client: RawClient, user: str, password: str, *, by_token: bool = False) -> Any:
    """The last answer to a login by SCRAM-SHA-256 with kafka-python's client."""
    scram = ScramClient(user, password, "SCRAM-SHA-256")
    message = scram.first_message()
    if by_token:
        message += b",tokenauth=true"
        scram.auth_message += b",tokenauth=true"
    await handshake(client, "SCRAM-SHA-256")
    first = await token(client, message)
    if first.error_code != 0:
        return first
    scram.process_server_first_message(first.auth_bytes)
    answer = await token(client, scram.final_message())
    if answer.error_code == 0:
        scram.process_server_final_message(answer.auth_bytes)
    return answer


def upsertion(user: str, password: str) -> ScramCredentialUpsertion:
    """A credential of SCRAM-SHA-256."""
    salted = ScramMechanism.SHA_256.salted_password(password.encode(), b"salt", 4096)
    return ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
    )


async def make_users(broker: Broker, *users: str) -> None:
    """Users whose passwords are their names, made over the broker's first listener, which is open."""
    admin = await connect(broker)
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion(user, user) for user in users])
    answer: Any = await admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
    assert {result.error_code for result in answer.results} == {0}
    admin.close()
