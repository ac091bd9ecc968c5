"""Delegation tokens of a running broker: made, shown, renewed and ended by requests; logins by them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from support.nodes.in_process import RawClient, connect, running_broker, until
from support.nodes.sasl import connect_with_sasl, handshake, log_in, make_users, token

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": "of all nodes",
    "delegation.token.expiry.check.interval.ms": "10",
}
Story = Callable[[Broker, RawClient], Awaitable[None]]


def play(data: Path, story: Story, **settings: str) -> None:
    """Play the story with a connection of alice's."""

    async def run() -> None:
        changed = {name.replace("_", "."): value for name, value in settings.items()}
        async with running_broker(data, {**SETTINGS, **changed}) as broker:
            await make_users(broker, "alice", "bob", "carol")
            alice = await logged_in(broker, "alice")
            await story(broker, alice)
            alice.close()

    asyncio.run(asyncio.wait_for(run(), 60))


async def logged_in(broker: Broker, user: str) -> RawClient:
    client = await connect_with_sasl(broker)
    assert (await log_in(client, user, user)).error_code == 0
    return client


async def create(client: RawClient, renewers: tuple[str, ...] = (), **fields: Any) -> Any:
    named = [CreatableRenewers(principal_type="User", principal_name=name) for name in renewers]
    request = CreateDelegationTokenRequest(renewers=named, **{"max_lifetime_ms": -1, **fields})
    return await client.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)


async def renew(client: RawClient, hmac: bytes, period_ms: int = -1) -> Any:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return await client.call(ApiKey.RENEW_DELEGATION_TOKEN, 2, request)


async def expire(client: RawClient, hmac: bytes, period_ms: int = -1) -> Any:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return await client.call(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request)


async def describe(client: RawClient, *owners: str, everyone: bool = False) -> Any:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    request = DescribeDelegationTokenRequest(owners=None if everyone else named)
    return await client.call(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request)


async def log_in_by(broker: Broker, made: Any) -> tuple[RawClient, Any]:
    client = await connect_with_sasl(broker)
    password = base64.b64encode(made.hmac).decode()
    return client, await log_in(client, made.token_id, password, by_token=True)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_requester_is_told_from_version_3_on(tmp_path: Path, version: int) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        made = await alice.call(ApiKey.CREATE_DELEGATION_TOKEN, version, request)
        described = await alice.call(
            ApiKey.DESCRIBE_DELEGATION_TOKEN, version, DescribeDelegationTokenRequest(owners=None)
        )
        (shown,) = described.tokens
        assert made.error_code == described.error_code == 0
        assert made.principal_name == shown.principal_name == "alice"
        told = "alice" if version >= 3 else ""
        assert made.token_requester_principal_name == shown.token_requester_principal_name == told

    play(tmp_path, story)


def test_a_token_is_made_shown_renewed_and_ended(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, ("bob",), max_lifetime_ms=3_600_000)
        assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (
            0,
            "alice",
            "alice",
        )
        assert made.max_timestamp_ms == made.issue_timestamp_ms + 3_600_000 == made.expiry_timestamp_ms

        (shown,) = (await describe(alice, everyone=True)).tokens
        assert (shown.token_id, shown.hmac) == (made.token_id, made.hmac)
        assert [each.principal_name for each in shown.renewers] == ["bob"]
        # owners and renewers are found by their names
        assert len((await describe(alice, "bob")).tokens) == 1
        assert (await describe(alice, "carol")).tokens == []
        assert (await describe(alice)).tokens == []

        carol, bob = await logged_in(broker, "carol"), await logged_in(broker, "bob")
        assert (await renew(carol, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await expire(carol, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await renew(bob, b"no token's")).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        renewed = await renew(bob, made.hmac, 1_800_000)
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
        assert (await expire(bob, made.hmac)).error_code == 0
        assert (await describe(alice, everyone=True)).tokens == []
        assert (await renew(bob, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        for each in (bob, carol):
            each.close()

    play(tmp_path, story)


def test_a_token_for_another_owner_names_its_requester(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, owner_principal_type="User", owner_principal_name="bob")
        assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
        client, answer = await log_in_by(broker, made)
        assert answer.error_code == 0
        assert principals(broker) == {"User:alice", "User:bob"}
        client.close()

    play(tmp_path, story)


def principals(broker: Broker) -> set[str]:
    return {each.session.principal for each in broker.server._clients.connections if each.session.sasl}


def test_a_renewer_is_a_user(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        group = CreatableRenewers(principal_type="Group", principal_name="g")
        request = CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1)
        answer: Any = await alice.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE

    play(tmp_path, story)


def test_a_client_logs_in_by_a_token_and_can_make_no_other(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, max_lifetime_ms=60_000)
        client, answer = await log_in_by(broker, made)
        assert answer.error_code == 0
        assert 0 < answer.session_lifetime_ms <= 60_000
        refusals = [
            await create(client),
            await renew(client, made.hmac),
            await expire(client, made.hmac),
            await describe(client, everyone=True),
        ]
        assert {each.error_code for each in refusals} == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
        assert refusals[0].principal_name == "alice"
        client.close()

    play(tmp_path, story)


def test_a_client_without_a_login_makes_no_token(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        anonymous = await connect(broker)
        made = await create(alice)
        refusals = [
            await create(anonymous),
            await renew(anonymous, made.hmac),
            await expire(anonymous, made.hmac),
            await describe(anonymous, everyone=True),
        ]
        assert {each.error_code for each in refusals} == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
        anonymous.close()

    play(tmp_path, story)


def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        refusals = [
            await create(alice),
            await renew(alice, b"hmac"),
            await expire(alice, b"hmac"),
            await describe(alice, everyone=True),
        ]
        assert {each.error_code for each in refusals} == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}

    play(tmp_path, story, delegation_token_secret_key="")


@pytest.mark.parametrize("wrong", ["hmac", "id", "user", "ended"])
def test_a_login_by_no_valid_token_is_refused(tmp_path: Path, wrong: str) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice)
        if wrong == "hmac":
            made.hmac = bytes(made.hmac[:-1]) + b"x"
        elif wrong == "id":
            made.token_id = "x" * 22
        elif wrong == "user":  # a user's password is no token's
            made.token_id, made.hmac = "alice", b"alice"
        else:
            assert (await expire(alice, made.hmac)).error_code == 0
        client, answer = await log_in_by(broker, made)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "invalid credentials" in answer.error_message
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_a_token_is_no_user(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice)
        client = await connect_with_sasl(broker)
        answer = await log_in(client, made.token_id, base64.b64encode(made.hmac).decode())
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    play(tmp_path, story)


def test_expired_tokens_let_nobody_in_and_are_removed(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, max_lifetime_ms=1)
        await until(lambda: broker.now_ms() > made.max_timestamp_ms)
        client, answer = await log_in_by(broker, made)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        await until(lambda: not broker.image.delegation_tokens)
        client.close()

    play(tmp_path, story)


def test_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await make_users(broker, "alice")
            made = await create(await logged_in(broker, "alice"))
        async with running_broker(tmp_path, SETTINGS) as broker:
            client, answer = await log_in_by(broker, made)
            assert answer.error_code == 0
            client.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_session_of_a_token_is_renewed_by_the_token(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, max_lifetime_ms=60_000)
        client, _ = await log_in_by(broker, made)
        again = await log_in(client, made.token_id, base64.b64encode(made.hmac).decode(), by_token=True)
        assert again.error_code == 0
        # the session may be renewed once a second
        assert (await handshake(client, "SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await token(client, b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        client.close()

    play(tmp_path, story)


# -- with an authorizer -------------------------------------------------------------------------------------

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


async def allow(
    broker: Broker, principal: str, kind: ResourceType, name: str, operation: AclOperation
) -> None:
    creation = AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=3,
    )
    admin = await connect(broker)
    answer: Any = await admin.call(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=[creation]))
    assert answer.results[0].error_code == 0
    admin.close()


def play_with_authorizer(data: Path, story: Story) -> None:
    async def run() -> None:
        async with running_broker(data, {**SETTINGS, **AUTHORIZER}) as broker:
            await make_users(broker, "alice", "bob", "carol")
            alice = await logged_in(broker, "alice")
            await story(broker, alice)
            alice.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_token_for_another_owner_takes_a_permission(tmp_path: Path) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        bobs = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        refused = await create(alice, **bobs)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        assert not broker.image.delegation_tokens
        own = {"owner_principal_type": "User", "owner_principal_name": "alice"}
        assert (await create(alice, **own)).error_code == 0
        assert (await create(alice)).error_code == 0
        await allow(broker, "User:alice", ResourceType.USER, "User:bob", AclOperation.CREATE_TOKENS)
        assert (await create(alice, **bobs)).principal_name == "bob"
        other = {"owner_principal_type": "User", "owner_principal_name": "carol"}
        refused = await create(alice, **other)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

    play_with_authorizer(tmp_path, story)


@pytest.mark.parametrize("by", ["token", "owner"])
def test_tokens_of_others_are_shown_to_those_who_may_see_them(tmp_path: Path, by: str) -> None:
    async def story(broker: Broker, alice: RawClient) -> None:
        made = await create(alice, ("bob",))
        await create(alice)
        carol, bob = await logged_in(broker, "carol"), await logged_in(broker, "bob")
        assert len((await describe(alice, everyone=True)).tokens) == 2
        assert [each.token_id for each in (await describe(bob, everyone=True)).tokens] == [made.token_id]
        assert (await describe(carol, everyone=True)).tokens == []
        assert (await describe(carol, "alice")).tokens == []
        if by == "token":
            await allow(
                broker, "User:carol", ResourceType.DELEGATION_TOKEN, made.token_id, AclOperation.DESCRIBE
            )
            assert [each.token_id for each in (await describe(carol, "alice")).tokens] == [made.token_id]
        else:
            await allow(broker, "User:carol", ResourceType.USER, "User:alice", AclOperation.DESCRIBE_TOKENS)
            assert len((await describe(carol, everyone=True)).tokens) == 2
        # to see a token is not to renew it
        assert (await renew(carol, made.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        for each in (bob, carol):
            each.close()

    play_with_authorizer(tmp_path, story)
